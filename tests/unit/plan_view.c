/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_view.c - ranks on nodes, rings over the tree, crossings of the links; and the forms in which `ddl plan` draws them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "plan_draw.h"
#include "plan_view.h"

/* Interleaved names: n1, n4, n7 on leaf1 and so on. */
static const char eight[] = "SwitchName=spine Level=1 LinkSpeed=1 Switches=leaf[1-3]\n"
			    "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1,4,7]\n"
			    "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[2,5,8]\n"
			    "SwitchName=leaf3 Level=0 LinkSpeed=1 Nodes=n[3,6]\n";

static const char *const names[] = { "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8" };

struct fixture {
	struct ddl__plan *plan;
	struct ddl__view *view;
};

/* A view of the eight nodes with tasks on each (0: not known). */
static struct fixture make(uint32_t tasks, uint32_t rings, bool cyclic)
{
	const uint32_t counts[] = { tasks, tasks, tasks, tasks, tasks, tasks, tasks, tasks };
	struct ddl__topology *topology = NULL;
	struct ddl__options options;
	struct fixture f = { NULL, NULL };
	size_t *node_of_rank = NULL;
	struct ddl_error err;
	bool has_ranks = false;
	int n_ranks = 0;

	ddl__options_init(&options);
	options.mode = DDL__MODE_RING;
	options.rings = rings;
	assert_int_equal(ddl__topology_read_controller(eight, strlen(eight), &topology, &err), 0);
	const struct ddl__plan_request request = {
		.topology = topology,
		.source = "slurm",
		.job = "7.0",
		.nodes = names,
		.tasks = tasks ? counts : NULL,
		.n_nodes = 8,
		.options = &options,
	};
	assert_int_equal(ddl__plan_create(&request, &f.plan, &err), 0);
	ddl__topology_destroy(topology);
	assert_int_equal(ddl__view_place(f.plan, names, 8, cyclic, &node_of_rank, &n_ranks, &has_ranks, &err), 0);
	assert_int_equal(n_ranks, tasks ? 8 * tasks : 8);
	assert_int_equal(has_ranks, tasks > 0);
	assert_int_equal(ddl__view_create(f.plan, node_of_rank, n_ranks, has_ranks, &f.view, &err), 0);
	free(node_of_rank);
	return f;
}

static void drop(struct fixture *f)
{
	ddl__view_destroy(f->view);
	ddl__plan_destroy(f->plan);
}

static const struct ddl__view_vertex *find(const struct ddl__view *view, const char *name)
{
	for (size_t i = 0; i < view->n_vertices; i++) {
		if (strcmp(view->vertices[i].vertex->name, name) == 0)
			return &view->vertices[i];
	}
	fail_msg("no vertex %s", name);
	return NULL;
}

static void ranks_are_dealt_out_in_the_order_of_the_names(void **state)
{
	struct fixture block = make(2, 1, false), cyclic = make(2, 1, true);

	for (int rank = 0; rank < 16; rank++) {
		const size_t *b = block.view->layout->node_of_rank, *c = cyclic.view->layout->node_of_rank;

		assert_string_equal(block.plan->nodes[b[rank]]->name, names[rank / 2]);
		assert_string_equal(cyclic.plan->nodes[c[rank]]->name, names[rank % 8]);
	}
	drop(&block);
	drop(&cyclic);
}

static void names_that_are_not_the_plans_are_refused(void **state)
{
	static const char *const twice[] = { "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n7" };
	static const char *const other[] = { "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n9" };
	struct fixture f = make(2, 1, false);
	size_t *node_of_rank = NULL;
	struct ddl_error err;
	bool has_ranks;
	int n;

	assert_int_equal(ddl__view_place(f.plan, twice, 8, false, &node_of_rank, &n, &has_ranks, &err), -EINVAL);
	assert_non_null(strstr(err.text, "n7"));
	assert_int_equal(ddl__view_place(f.plan, other, 8, false, &node_of_rank, &n, &has_ranks, &err), -EINVAL);
	assert_non_null(strstr(err.text, "n9"));
	assert_int_equal(ddl__view_place(f.plan, names, 7, false, &node_of_rank, &n, &has_ranks, &err), -EINVAL);
	assert_null(node_of_rank);
	drop(&f);
}

static void a_ring_crosses_each_link_once_and_rank_order_more_often(void **state)
{
	static const int ring[] = { 0, 1, 6, 7, 12, 13, 2, 3, 8, 9, 14, 15, 4, 5, 10, 11 };
	struct fixture f = make(2, 1, false);
	const int *order = ddl__view_ring(f.view, 0);

	for (int i = 0; i < 16; i++)
		assert_int_equal(order[i], ring[i]);
	for (size_t i = 1; i < f.view->n_vertices; i++) {
		assert_int_equal(f.view->vertices[i].planned.up, 1);
		assert_int_equal(f.view->vertices[i].planned.down, 1);
	}
	assert_int_equal(f.view->vertices[0].planned.up, 0);
	assert_int_equal(find(f.view, "leaf1")->by_rank.up, 3);
	assert_int_equal(find(f.view, "leaf1")->by_rank.down, 3);
	assert_int_equal(find(f.view, "leaf2")->by_rank.up, 3);
	assert_int_equal(find(f.view, "leaf3")->by_rank.up, 2);
	assert_int_equal(find(f.view, "n5")->by_rank.up, 1);
	drop(&f);
}

static void several_rings_cross_each_link_once_each(void **state)
{
	struct fixture f = make(2, 3, false);

	for (size_t i = 1; i < f.view->n_vertices; i++) {
		assert_int_equal(f.view->vertices[i].planned.up, 3);
		assert_int_equal(f.view->vertices[i].planned.down, 3);
	}
	assert_true(memcmp(ddl__view_ring(f.view, 0), ddl__view_ring(f.view, 1), 16 * sizeof(int)) != 0);
	drop(&f);
}

static void nodes_stand_for_ranks_where_tasks_are_not_known(void **state)
{
	struct fixture f = make(0, 1, false);
	char text[64];

	assert_string_equal(ddl__view_rank_name(f.view, ddl__view_ring(f.view, 0)[1], text, sizeof(text)), "n4");
	assert_int_equal(find(f.view, "leaf1")->planned.up, 1);
	drop(&f);
}

/* A drawing: every line of a ring goes on where the last one ended, and nothing on one track overlaps. */
static void check_drawing(const struct ddl__view *view, bool by_rank)
{
	struct ddl__draw *draw = NULL;
	size_t n_strands = 0;

	assert_int_equal(ddl__draw_create(view, by_rank, &draw), 0);
	for (size_t i = 1; i < view->n_vertices; i++) {
		const struct ddl__crossings *c = by_rank ? &view->vertices[i].by_rank : &view->vertices[i].planned;
		const struct ddl__draw_bar *bar = &draw->bars[i], *parent = &draw->bars[view->vertices[i].parent];

		n_strands += (size_t)c->up + c->down;
		assert_int_equal(bar->n_up, c->up);
		assert_int_equal(bar->n_down, c->down);
		assert_true(bar->left >= parent->left && bar->right <= parent->right);
		assert_true(bar->top > parent->bottom);
	}
	assert_int_equal(draw->n_strands, n_strands);
	for (size_t i = 0; i < draw->n_strands; i++) {
		const struct ddl__draw_bar *bar = &draw->bars[draw->strands[i].bar];

		assert_true(draw->strands[i].x > bar->left && draw->strands[i].x < bar->right);
	}
	for (size_t i = 0; i < draw->n_pieces; i++) {
		const struct ddl__draw_piece *a = &draw->pieces[i];
		const double y = ddl__draw_track_y(draw, a);

		assert_true(y > draw->bars[a->bar].top && y < draw->bars[a->bar].bottom);
		for (size_t k = i + 1; k < draw->n_pieces && draw->pieces[k].bar == a->bar; k++) {
			const struct ddl__draw_piece *b = &draw->pieces[k];
			const double a_low = a->from < a->to ? a->from : a->to, a_high = a->from + a->to - a_low;
			const double b_low = b->from < b->to ? b->from : b->to, b_high = b->from + b->to - b_low;

			assert_true(a->track != b->track || a_high < b_low || b_high < a_low);
		}
	}
	ddl__draw_destroy(draw);
}

static void drawings_have_a_line_a_crossing_and_tracks_without_overlap(void **state)
{
	for (uint32_t tasks = 0; tasks <= 3; tasks++) {
		for (uint32_t rings = 1; rings <= 4; rings++) {
			struct fixture f = make(tasks, rings, tasks == 3);

			check_drawing(f.view, false);
			check_drawing(f.view, true);
			drop(&f);
		}
	}
}

static char *print(int (*form)(const struct ddl__view *view, bool by_rank, FILE *out), const struct ddl__view *view)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_int_equal(form(view, false, out), 0);
	fclose(out);
	return text;
}

static size_t count(const char *text, const char *word)
{
	size_t n = 0;

	for (; (text = strstr(text, word)) != NULL; text += strlen(word))
		n++;
	return n;
}

static void svg_and_dot_show_every_rank_and_hop(void **state)
{
	struct fixture f = make(2, 2, false);
	char *svg = print(ddl__view_svg, f.view), *dot = print(ddl__view_dot, f.view);

	assert_int_equal(count(svg, "class=\"rank\""), 16);
	assert_int_equal(count(svg, "class=\"node\""), 8);
	assert_int_equal(count(svg, "class=\"switch\""), 4);
	assert_int_equal(count(svg, ">2 up, 2 down<"), 3);
	assert_non_null(strstr(svg, "16 ranks on 8 nodes, 4 switches"));
	assert_non_null(strstr(svg, "Each uplink is crossed 2 times in each direction (in rank order: up to 6 times)"));
	assert_int_equal(count(dot, "constraint=false"), 32);
	free(svg);
	free(dot);
	drop(&f);
}

static int print_json(const struct ddl__view *view, bool by_rank, FILE *out)
{
	return ddl__view_json(view, out);
}

static void json_has_tree_ranks_rings_and_crossings(void **state)
{
	struct fixture f = make(2, 1, false);
	char *text = print(print_json, f.view);
	json_t *plan = json_loads(text, 0, NULL);
	json_t *uplink = json_array_get(json_object_get(plan, "uplinks"), 0);

	assert_non_null(plan);
	assert_int_equal(json_integer_value(json_object_get(plan, "n_ranks")), 16);
	assert_int_equal(json_array_size(json_object_get(plan, "nodes")), 8);
	assert_int_equal(json_array_size(json_array_get(json_object_get(plan, "rings"), 0)), 16);
	assert_string_equal(json_string_value(json_object_get(uplink, "name")), "leaf1");
	assert_int_equal(json_integer_value(json_object_get(uplink, "plan_up")), 1);
	assert_int_equal(json_integer_value(json_object_get(uplink, "rank_order_up")), 3);
	json_decref(plan);
	free(text);
	drop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_are_dealt_out_in_the_order_of_the_names),
		cmocka_unit_test(names_that_are_not_the_plans_are_refused),
		cmocka_unit_test(a_ring_crosses_each_link_once_and_rank_order_more_often),
		cmocka_unit_test(several_rings_cross_each_link_once_each),
		cmocka_unit_test(nodes_stand_for_ranks_where_tasks_are_not_known),
		cmocka_unit_test(drawings_have_a_line_a_crossing_and_tracks_without_overlap),
		cmocka_unit_test(svg_and_dot_show_every_rank_and_hop),
		cmocka_unit_test(json_has_tree_ranks_rings_and_crossings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
