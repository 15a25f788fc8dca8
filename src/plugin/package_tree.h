/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/package_tree.h - the files of a package that was fetched from elsewhere. */
#ifndef BERTH_PLUGIN_PACKAGE_TREE_H
#define BERTH_PLUGIN_PACKAGE_TREE_H

#include <berth/error.h>

/* Makes all files below the directory ours, readable for workers and without set-id bits. The
 * package may have brought any file; none of its programs may run any more. UNPROCESSABLE: it
 * contains something other than files, directories and links that stay inside. */
int berth_package_take_over(const char *directory, struct berth_error *err);
#endif
