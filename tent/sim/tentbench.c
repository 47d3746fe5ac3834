/* SPDX-License-Identifier: MIT */
/* The sub-commands of tentbench. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/output.h"
#include "decide.h"
#include "move.h"
#include "options.h"
#include "summary.h"
#include "tent.h"

static const char usage[] = "Usage: tentbench COMMAND [OPTION]...\n"
			    "  server     memory for clients; tentbench server --help\n"
			    "  client     move memory, and say how fast; tentbench client --help\n"
			    "  sim        simulate rails and the scheduler; tentbench sim --help\n"
			    "  --help, --version\n";

static int list_cases(void)
{
	for (size_t i = 0; i < n_sim_cases; i++)
		printf("%-15s %s\n", sim_cases[i].name, sim_cases[i].about);
	return 0;
}

static int failed(const struct sim_case *c, enum tent_mode mode, const char *what)
{
	fprintf(stderr, "tentbench: %s, %s: %s\n", c->name, config_mode_name(mode), what);
	return 1;
}

static void progress(const struct sim_case *c, enum tent_mode mode)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%-15s %-8s\r", c->name, config_mode_name(mode));
}

/* Runs one case in one mode. Returns 0 or the exit status. */
static int run_one(const struct sim_options *o, const struct sim_case *c,
	const struct tent_config *config, FILE *json)
{
	struct summary s;
	int err, status = 0;

	progress(c, config->mode);
	err = summary_run(&s, c, &o->assume, config, o->first_seed, o->seeds);
	if (!err && json)
		summary_json(&s, json);
	if (!err && json != stdout)
		summary_line(&s, stdout);
	if (err)
		status = failed(c, config->mode, strerror(-err));
	else if (o->check && config->mode == TENT_MODE_DEFAULT && !summary_accepted(&s))
		status = failed(c, config->mode, "over the limit");
	summary_fini(&s);
	return status;
}

static int run_decisions(const struct sim_options *o, struct tent_config *config, FILE *json)
{
	double ns;
	int err;

	for (int m = 0; m < 3; m++) {
		if (!(o->modes >> m & 1))
			continue;
		config->mode = (enum tent_mode)m;
		err = decide_measure(config, &ns);
		if (err) {
			fprintf(stderr, "tentbench: %s\n", strerror(-err));
			return 1;
		}
		if (json)
			fprintf(json, "{\"mode\": \"%s\", \"ns_per_decision\": %.1f}\n",
				config_mode_name(config->mode), ns);
		if (json != stdout)
			printf("%-8s %.0f ns per decision\n", config_mode_name(config->mode), ns);
	}
	return 0;
}

static int run_all(const struct sim_options *o, struct tent_config *config, FILE *json)
{
	int status = 0;

	if (json != stdout)
		summary_header(stdout);
	for (uint32_t i = 0; i < o->n_cases; i++) {
		for (int m = 0; m < 3; m++) {
			if (!(o->modes >> m & 1))
				continue;
			config->mode = (enum tent_mode)m;
			status |= run_one(o, o->cases[i], config, json);
		}
	}
	return status;
}

static int with_output(struct sim_options *o, struct tent_config *config)
{
	FILE *json;
	int status = output_open("tentbench", o->json, "we", &json);

	if (status)
		return status;
	status = output_open("tentbench", o->trace, "we", &o->assume.trace);
	if (!status)
		status = o->decisions ? run_decisions(o, config, json) : run_all(o, config, json);
	status = output_close("tentbench", o->trace, o->assume.trace, status);
	return output_close("tentbench", o->json, json, status);
}

static int with_config(struct sim_options *o)
{
	struct tent_config config;
	struct tent_why why;
	int status;

	config_init(&config);
	if (o->config && config_load(o->config, &config, &why)) {
		fprintf(stderr, "tentbench: %s\n", why.text);
		return 2;
	}
	status = with_output(o, &config);
	config_fini(&config);
	return status;
}

static int sim(int argc, char **argv)
{
	struct sim_options o;
	char why[400];
	int err = sim_options_parse(argc, argv, &o, why, sizeof(why));

	if (err)
		return args_status("tentbench sim", why, err);
	return o.list ? list_cases() : with_config(&o);
}

/* The command server or client. */
static int move(int argc, char **argv)
{
	bool server = argv[0][0] == 's';
	struct move_options o;
	char why[400];
	int err = move_options_parse(argc, argv, server, &o, why, sizeof(why));

	if (err)
		return args_status(server ? "tentbench server" : "tentbench client", why, err);
	return server ? move_server(&o) : move_client(&o);
}

int main(int argc, char **argv)
{
	static const struct args_command commands[] = {{"server", move}, {"client", move},
		{"sim", sim}, {NULL, NULL}};

	return output_end("tentbench",
		args_commands("tentbench", usage, TENT_VERSION, commands, argc, argv));
}
