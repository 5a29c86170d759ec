/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_slurm.c - Slurm as this user's commands see it: its release, the plugin and the line that loads it, the switches, PMIx.
 *
 * Known faults of installations, each with what to do: a plugin of another release, a line that was forgotten or that configless
 * nodes do not get, switches that Slurm was not told of, a Slurm without PMIx.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "hostlist.h"
#include "plan.h"
#include "plugin.h"
#include "topology.h"

struct slurm {
	const char *root;             /* as in check.h */
	json_t *lines;                /* what was found */
	int year, month;              /* of the release; 0: not known */
	char *config;                 /* what `scontrol show config` prints; NULL: slurmctld does not answer */
	char conf[1024];              /* slurm.conf as commands here read it */
	bool fetched;                 /* that is one that slurmd got from slurmctld */
	struct ddl__plugstack plugin; /* the line that loads the plugin */
	char installed[PATH_MAX];     /* the plugin where it was found without that line; "": nowhere */
};

/* The first line of a text that has one of the words, else the first; never NULL. */
static char *pick_line(char *text, const char *word, const char *other)
{
	char *at = strstr(text, word);

	if (!at && other)
		at = strstr(text, other);
	while (at && at > text && at[-1] != '\n')
		at--;
	at = at ? at : text;
	at[strcspn(at, "\n")] = '\0';
	return at;
}

/* Whether there is Slurm. */
static bool check_release(struct slurm *s)
{
	static const char *const commands[] = { "srun --version", "slurmd -V" };
	char *text = NULL, *digit;

	for (size_t i = 0; i < 2 && s->year == 0; i++) {
		free(text);
		if (ddl__ask(commands[i], &text) != 0)
			continue;
		digit = text + strcspn(text, "0123456789");
		if (sscanf(digit, "%d.%d", &s->year, &s->month) != 2)
			s->year = s->month = 0;
	}
	if (s->year) {
		text[strcspn(text, "\n")] = '\0';
		ddl__check_add(s->lines, "slurm", DDL__PASS, NULL, "%s", text);
	} else {
		ddl__check_add(s->lines, "slurm", DDL__FAIL,
			       "put Slurm's commands into PATH (module load slurm); without Slurm start processes by ddl run",
			       "there is neither srun nor slurmd here");
	}
	free(text);
	return s->year != 0;
}

static void check_controller(struct slurm *s)
{
	char *text;
	const int status = ddl__ask("scontrol show config", &text);

	if (status == 0 && strstr(text, "SLURM_CONF")) {
		s->config = text;
		return;
	}
	ddl__check_add(
		s->lines, "slurmctld", DDL__FAIL,
		"see to slurmctld (systemctl status slurmctld), the network, munge, and slurm.conf or SLURM_CONF on this machine",
		status == 124 ? "it did not answer within 15 seconds%s" : "it does not answer: %s",
		status == 124 || !text ? "" : pick_line(text, "error", NULL));
	free(text);
}

#define FETCHED "/run/slurm/conf/slurm.conf" /* where slurmd keeps what it got from slurmctld */

static bool is_there(const struct slurm *s, const char *path)
{
	char file[PATH_MAX];

	return snprintf(file, sizeof(file), "%s%s", s->root, path) < (int)sizeof(file) && access(file, F_OK) == 0;
}

/* Finds slurm.conf as Slurm's commands do. What slurmctld says of itself is true of its machine only. */
static void find_conf(struct slurm *s)
{
	const char *said = getenv("SLURM_CONF");
	char path[1024] = "";

	if (s->config)
		ddl__config_value(s->config, "SLURM_CONF", path, sizeof(path));
	if (said && *said)
		snprintf(s->conf, sizeof(s->conf), "%s", said);
	else if (is_there(s, FETCHED) && !is_there(s, "/etc/slurm/slurm.conf"))
		snprintf(s->conf, sizeof(s->conf), "%s", FETCHED);
	else
		snprintf(s->conf, sizeof(s->conf), "%s", *path ? path : "/etc/slurm/slurm.conf");
	s->fetched = strcmp(s->conf, FETCHED) == 0;
}

static size_t folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The path of plugstack.conf: where slurmctld has it, or, where its place is beside slurm.conf, beside the one here. */
static void find_plugstack(const struct slurm *s, char *path, size_t size)
{
	char conf[1024] = "";
	size_t length;

	*path = '\0';
	if (s->config) {
		ddl__config_value(s->config, "SLURM_CONF", conf, sizeof(conf));
		ddl__config_value(s->config, "PlugStackConfig", path, size);
	}
	length = folder_length(conf);
	if (!*path || (folder_length(path) == length && strncmp(path, conf, length) == 0))
		snprintf(path, size, "%.*splugstack.conf", (int)folder_length(s->conf), s->conf);
}

/* Why there is no line, and what to do. */
static void tell_missing(const struct slurm *s, const char *path)
{
	const struct ddl__plugstack *p = &s->plugin;
	char remedy[PATH_MAX + 1200], where[1100] = "";

	snprintf(remedy, sizeof(remedy), "write into it: optional %s", *s->installed ? s->installed : "/PATH/OF/" DDL__PLUGIN_FILE);
	if (!*s->installed)
		strcat(remedy, " (install the package slurm-spank-ddl first)");
	if (p->commented) {
		snprintf(remedy, sizeof(remedy), "take the # away from the line");
		snprintf(where, sizeof(where), "%s:%d", p->file, p->line);
		ddl__check_add(s->lines, "plugstack", DDL__FAIL, remedy, "the line that loads the plugin is a comment: %s", where);
	} else if (!p->exists) {
		ddl__check_add(s->lines, "plugstack", DDL__FAIL, remedy, "%s is not there", path);
	} else if (*p->empty_include) {
		ddl__check_add(s->lines, "plugstack", DDL__FAIL, remedy,
			       "%s has no line that loads the plugin, and its include of %s finds no file", path, p->empty_include);
	} else {
		ddl__check_add(s->lines, "plugstack", DDL__FAIL, remedy, "%s has no line that loads the plugin", path);
	}
}

/* The line, and the file that it names. */
static void check_plugstack(struct slurm *s)
{
	const struct ddl__plugstack *p = &s->plugin;
	char path[1024], file[PATH_MAX];
	int year, month, rc;

	if (ddl__plugin_find(s->root, s->installed, sizeof(s->installed)) < 0)
		s->installed[0] = '\0';
	find_plugstack(s, path, sizeof(path));
	ddl__plugstack_read(s->root, path, &s->plugin);
	if (!p->found) {
		tell_missing(s, path);
		return;
	}
	snprintf(file, sizeof(file), "%s%s", s->root, p->path);
	rc = *p->path == '/' ? ddl__plugin_release(file, &year, &month) : -1;
	if (*p->path != '/')
		ddl__check_add(s->lines, "plugstack", DDL__WARN, "write the full path: Slurm looks for others in PluginDir only",
			       "%s:%d names the plugin without its folder: %s", p->file, p->line, p->path);
	else if (access(file, R_OK) != 0)
		ddl__check_add(s->lines, "plugstack", DDL__FAIL, "install slurm-spank-ddl on this machine too, or correct the path",
			       "%s:%d names %s, which is not here or may not be read", p->file, p->line, p->path);
	else if (p->required)
		ddl__check_add(s->lines, "plugstack", DDL__WARN,
			       "write optional: after an upgrade of Slurm a required plugin stops srun, sbatch and salloc",
			       "%s:%d loads %s as required", p->file, p->line, p->path);
	else
		ddl__check_add(s->lines, "plugstack", DDL__PASS, NULL, "%s:%d loads %s", p->file, p->line, p->path);
	if (rc == 0 && (year != s->year || month != s->month))
		ddl__check_add(
			s->lines, "plugin", DDL__FAIL,
			"install slurm-spank-ddl of this release, or build it again with its headers (-DDDL_SLURM_INCLUDE_DIR)",
			"it was built for Slurm %d.%02d, and this is %d.%02d, which does not load it", year, month, s->year,
			s->month);
	else if (rc == 0)
		ddl__check_add(s->lines, "plugin", DDL__PASS, NULL, "it was built for Slurm %d.%02d", year, month);
	else if (rc == -EBADMSG)
		ddl__check_add(s->lines, "plugin", DDL__FAIL, "install slurm-spank-ddl again, or correct the path",
			       "%s is not DDL's plugin, or is damaged: it does not say which release of Slurm it was built for",
			       p->path);
}

/* Whether srun has loaded it: it has the option. */
static void check_loaded(struct slurm *s)
{
	char *text, *said;
	const int status = ddl__ask("srun --help", &text);

	if (status < 0)
		return;
	if (status != 0 && !s->config) { /* said already */
		free(text);
		return;
	}
	if (!strstr(text, "--ddl=")) {
		said = pick_line(text, "error: spank:", "error: ");
		ddl__check_add(s->lines, "loaded", DDL__FAIL,
			       s->plugin.found ? "see to the line, the file and its release, as said above"
					       : "write the line, as said above; nothing needs a restart",
			       strstr(said, "error: ") ? "srun has no option --ddl: %s" : "srun has no option --ddl", said);
		free(text);
		return;
	}
	free(text);
	if (ddl__ask("srun --ddl=help", &text) < 0)
		return;
	said = strstr(text, "ddl: plugstack.conf: ");
	if (said)
		ddl__check_add(s->lines, "loaded", DDL__WARN, "correct the plugin's arguments (man ddl-spank)", "%s",
			       pick_line(said + 5, "plugstack", NULL));
	else
		ddl__check_add(s->lines, "loaded", DDL__PASS, NULL, "srun has the option --ddl");
	free(text);
}

/* Nodes that get their configuration from slurmctld get plugstack.conf, but no include with a pattern is expanded for them. */
static void check_configless(struct slurm *s)
{
	char parameters[1024];

	if (!s->config)
		return;
	ddl__config_value(s->config, "SlurmctldParameters", parameters, sizeof(parameters));
	if (!s->fetched && !strstr(parameters, "enable_configless"))
		ddl__check_add(s->lines, "configless", DDL__PASS, NULL, "no: the configuration is %s", s->conf);
	else if (s->plugin.found && !s->plugin.pattern)
		ddl__check_add(s->lines, "configless", DDL__PASS, NULL,
			       "yes, and plugstack.conf names the plugin by a line of its own");
	else
		ddl__check_add(
			s->lines, "configless", s->fetched || !s->plugin.found ? DDL__FAIL : DDL__WARN,
			"where slurmctld runs, write the line with the plugin's full path into plugstack.conf itself, then "
			"scontrol "
			"reconfigure (slurm-conf/examples/plugstack.configless.conf)",
			"nodes get their configuration from slurmctld, which does not expand an include with a pattern for them");
}

/* Nodes of the cluster that the topology does not have; how many, and the first. */
static size_t count_strangers(const struct ddl__topology *topology, char *first, size_t size)
{
	char **known = NULL, **all = NULL, *text = NULL;
	size_t n_known = 0, n_all = 0, strangers = 0;
	json_t *set = json_object();

	if (ddl__ask("sinfo -h -o %N", &text) == 0 && ddl__topology_nodes(topology, &known, &n_known) == 0 &&
	    ddl__hostlist_expand(text, strcspn(text, "\n"), &all, &n_all, NULL) == 0) {
		for (size_t i = 0; i < n_known; i++)
			json_object_set_new(set, known[i], json_true());
		for (size_t i = 0; i < n_all; i++)
			if (!json_object_get(set, all[i]) && strangers++ == 0)
				snprintf(first, size, "%s", all[i]);
	}
	json_decref(set);
	free(text);
	free(known);
	free(all);
	return strangers;
}

static void tell_topology(struct slurm *s, const struct ddl__topology *topology, const char *source)
{
	char plugin[128] = "", stranger[256] = "";
	size_t n;

	if (s->config)
		ddl__config_value(s->config, "TopologyPlugin", plugin, sizeof(plugin));
	if (strcmp(ddl__topology_kind(topology), "flat") == 0) {
		ddl__check_add(
			s->lines, "topology", DDL__WARN,
			"describe the switches in topology.conf or topology.yaml (slurm-conf/examples) and set "
			"TopologyPlugin=topology/tree; or give the plugin topology=file:/PATH",
			"Slurm knows no switches (%s): rings cross them as chance has it, and --ddl gains nothing between nodes",
			*plugin ? plugin : "TopologyPlugin");
		return;
	}
	n = count_strangers(topology, stranger, sizeof(stranger));
	if (n)
		ddl__check_add(s->lines, "topology", DDL__WARN, "add them to topology.conf: they hang below the root until then",
			       "%zu node%s of the cluster %s in no switch's list, %s first", n, n == 1 ? "" : "s",
			       n == 1 ? "is" : "are", stranger);
	else
		ddl__check_add(s->lines, "topology", DDL__PASS, NULL, "%s knows the switches (%s)", source,
			       ddl__topology_kind(topology));
}

static void check_topology(struct slurm *s)
{
	const char *argument = strstr(s->plugin.arguments, "topology=file:");
	struct ddl__topology *topology;
	struct ddl_error err;
	char path[PATH_MAX], *text;
	int rc;

	if (argument) {
		snprintf(path, sizeof(path), "%s%.*s", s->root, (int)strcspn(argument + 14, " \t"), argument + 14);
		if (ddl__topology_load(path, &topology, &err) < 0) {
			ddl__check_add(s->lines, "topology", DDL__FAIL,
				       "correct the file, or the plugin's argument topology=", "%s", err.text);
			return;
		}
		tell_topology(s, topology, path + strlen(s->root));
		ddl__topology_destroy(topology);
		return;
	}
	if (!s->config)
		return;
	rc = ddl__ask("scontrol show topology", &text);
	if (rc < 0)
		return;
	if (rc != 0) /* where there is none some releases say so by an error */
		text[0] = '\0';
	if (ddl__topology_read_controller(text, strlen(text), &topology, &err) == 0) {
		tell_topology(s, topology, "slurmctld");
		ddl__topology_destroy(topology);
	} else {
		ddl__check_add(s->lines, "topology", DDL__WARN, "report it, with what scontrol show topology prints",
			       "what slurmctld says of its switches is not understood: %s", err.text);
	}
	free(text);
}

static void check_pmix(struct slurm *s)
{
	char mpi[64] = "", *text;
	const int status = ddl__ask("srun --mpi=list", &text);
	bool known;

	if (status < 0)
		return;
	known = strstr(text, "pmix") != NULL;
	if (status != 0 && (!s->config || strstr(text, "Plug-in initialization failed"))) { /* said already: srun does not start */
		free(text);
		return;
	}
	free(text);
	if (s->config)
		ddl__config_value(s->config, "MpiDefault", mpi, sizeof(mpi));
	if (!known)
		ddl__check_add(s->lines, "pmix", DDL__FAIL,
			       "install Slurm's mpi/pmix plugin and the PMIx that it opens (RHEL: slurm, pmix; Debian: "
			       "slurm-wlm-basic-plugins, "
			       "libpmix-dev on the nodes), or build Slurm --with-pmix",
			       "srun has no MPI type pmix (srun --mpi=list): ranks cannot find each other");
	else if (ddl__check_is_task() && !getenv("PMIX_NAMESPACE"))
		ddl__check_add(s->lines, "pmix", DDL__FAIL, "srun --mpi=pmix, or MpiDefault=pmix in slurm.conf",
			       "srun knows PMIx, but this step was started without it (MpiDefault is %s)",
			       *mpi ? mpi : "not known");
	else
		ddl__check_add(s->lines, "pmix", DDL__PASS, NULL, "srun has PMIx%s",
			       strncmp(mpi, "pmix", 4) == 0 ? ", and takes it by default" : " (srun --mpi=pmix)");
}

/* In a step: what it got of the plugin. */
static void check_plan(struct slurm *s)
{
	const char *text = getenv(DDL__PLAN_ENV), *mode = getenv(DDL__MODE_ENV);
	struct ddl__plan *plan;
	struct ddl_error err;

	if (!ddl__check_is_task())
		return;
	if (text && ddl__plan_decode(text, strlen(text), &plan, &err) < 0) {
		ddl__check_add(s->lines, "plan", DDL__FAIL, "unset DDL_PLAN where it was set by hand", "DDL_PLAN: %s", err.text);
	} else if (text) {
		ddl__check_add(s->lines, "plan", DDL__PASS, NULL, "this step has one: --ddl=%s, of %s", mode ? mode : "?",
			       plan->source);
		ddl__plan_destroy(plan);
	} else if (mode) {
		ddl__check_add(s->lines, "plan", DDL__PASS, NULL, "the ranks make it, of what their nodes know (--ddl=%s)", mode);
	} else {
		ddl__check_add(s->lines, "plan", DDL__WARN, "ask for it: srun --ddl=auto, or sbatch --ddl=auto",
			       "this step asked for none: the ranks go by what their nodes know");
	}
}

void ddl__check_slurm(const char *root, json_t *lines)
{
	struct slurm *s = calloc(1, sizeof(*s));

	if (!s) {
		ddl__check_add(lines, "slurm", DDL__FAIL, "free some memory", "no memory to look at Slurm");
		return;
	}
	s->root = root;
	s->lines = lines;
	if (check_release(s)) {
		check_controller(s);
		find_conf(s);
		check_plugstack(s);
		check_loaded(s);
		check_configless(s);
		check_topology(s);
		check_pmix(s);
		check_plan(s);
	}
	free(s->config);
	free(s);
}
