/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smoke.c - runs a fuzz target without libFuzzer: every file of a folder, then mutations of them from a fixed seed.
 *
 *     fuzz_smoke_plan FOLDER ROUNDS
 *
 * Every input lies in memory of exactly its size, so that a sanitizer or valgrind sees a read past its end. On a crash the
 * input is in the file that FUZZ_KEEP names, if it is set.
 */
#include <dirent.h>
#include <string.h>

#include "fuzz.h"

#define SEEDS_MAX 256
#define INPUT_MAX 65536 /* bytes of one input */

struct seed {
	uint8_t *bytes;
	size_t size;
};

static uint32_t draw(uint32_t *state, uint32_t below)
{
	*state = *state * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)*state * below >> 32);
}

static void run_input(const uint8_t *bytes, size_t size)
{
	const char *keep = getenv("FUZZ_KEEP");
	uint8_t *exact = malloc(size + !size);
	FILE *file = keep ? fopen(keep, "wb") : NULL;

	MUST(exact);
	if (size)
		memcpy(exact, bytes, size);
	if (file) {
		fwrite(bytes, 1, size, file);
		fclose(file);
	}
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Reads the files of a folder, in the order of their names. Returns how many there are. */
static size_t read_seeds(const char *folder, struct seed *seeds)
{
	char *names[SEEDS_MAX], path[4096];
	struct dirent *entry;
	DIR *dir = opendir(folder);
	size_t i, n = 0;

	MUST(dir);
	while ((entry = readdir(dir)) && n < SEEDS_MAX)
		if (entry->d_name[0] != '.')
			names[n++] = strdup(entry->d_name);
	closedir(dir);
	qsort(names, n, sizeof(*names), compare_names);
	for (i = 0; i < n; i++) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		file = fopen(path, "rb");
		MUST(file);
		seeds[i].bytes = malloc(INPUT_MAX);
		MUST(seeds[i].bytes);
		seeds[i].size = fread(seeds[i].bytes, 1, INPUT_MAX, file);
		fclose(file);
		free(names[i]);
	}
	return n;
}

/* Changes one thing: a byte, a piece doubled, cut out, or taken from another seed. */
static size_t mutate(uint8_t *bytes, size_t size, const struct seed *other, uint32_t *state)
{
	static const char words[] = "()()[[]],,;;==**%-..:09127abnsx\n";
	size_t at = size ? draw(state, (uint32_t)size) : 0, n = draw(state, 32);

	switch (draw(state, 6)) {
	case 0:
		if (size)
			bytes[at] = (uint8_t)(draw(state, 8) ? 0x21 + draw(state, 94) : draw(state, 256));
		return size;
	case 1:
		if (size)
			bytes[at] = (uint8_t)words[draw(state, sizeof(words) - 1)];
		return size;
	case 2:
		memmove(bytes + at + 1, bytes + at, size - at);
		bytes[at] = (uint8_t)words[draw(state, sizeof(words) - 1)];
		return size + 1;
	case 3:
		n = n < size - at ? n : size - at;
		memmove(bytes + at, bytes + at + n, size - at - n);
		return size - n;
	case 4:
		n = n < size - at ? n : size - at;
		memmove(bytes + at + n, bytes + at, size - at);
		return size + n;
	default:
		n = n < other->size ? n : other->size;
		memmove(bytes + at + n, bytes + at, size - at);
		memcpy(bytes + at, other->bytes + (n < other->size ? draw(state, (uint32_t)(other->size - n)) : 0), n);
		return size + n;
	}
}

int main(int argc, char **argv)
{
	static struct seed seeds[SEEDS_MAX];
	static uint8_t bytes[INPUT_MAX + 1024];
	uint32_t state = 20240501;
	unsigned long round, rounds;
	size_t i, n, size;

	if (argc != 3) {
		fprintf(stderr, "usage: %s FOLDER ROUNDS\n", argv[0]);
		return 2;
	}
	rounds = strtoul(argv[2], NULL, 10);
	n = read_seeds(argv[1], seeds);
	MUST(n > 0);
	for (i = 0; i < n; i++)
		run_input(seeds[i].bytes, seeds[i].size);
	for (round = 0; round < rounds; round++) {
		i = draw(&state, (uint32_t)n);
		size = seeds[i].size;
		memcpy(bytes, seeds[i].bytes, size);
		for (i = 1 + draw(&state, 4); i > 0; i--)
			size = mutate(bytes, size, &seeds[draw(&state, (uint32_t)n)], &state);
		run_input(bytes, size);
	}
	printf("%zu seeds and %lu mutations\n", n, rounds);
	for (i = 0; i < n; i++)
		free(seeds[i].bytes);
	return 0;
}
