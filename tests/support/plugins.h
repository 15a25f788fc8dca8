/* SPDX-License-Identifier: Apache-2.0
 * tests/support/plugins.h - plugins for tests: the fake worker under any name, and what it holds.
 */
#ifndef BERTH_TESTS_PLUGINS_H
#define BERTH_TESTS_PLUGINS_H

#include "fixture.h"

/* A package with the fake worker (BERTH_TEST_FAKE_WORKER is the program) that declares the provider
 * NAME, in the fixture's directory; installed. */
struct berth_plugin *install_fake(struct fixture *f, const char *name);
/* The same without installing it: the package's directory. */
const char *make_fake_package(struct fixture *f, const char *name);
/* How many places its worker holds, by its own account. */
int count_fake_places(struct fixture *f, const struct berth_plugin *plugin);
/* An environment of it. */
struct berth_environment *make_fake_environment(struct fixture *f, const char *name, bool reuse);
#endif
