/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_socket.c - see run_socket.h. */
#include "core/run/run_socket.h"

#include <string.h>
#include <sys/socket.h>

#include "os/runtime.h"

int berth_run_socket_address(const char *run_id, struct sockaddr_un *out, struct berth_error *err)
{
    char path[BERTH_RUNTIME_SOCKET_SIZE];
    int rc = berth_runtime_socket(run_id, path, err);
    if (rc < 0)
        return rc;
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof out->sun_path)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "The name of the socket is too long: %s", path);
    memcpy(out->sun_path, path, strlen(path) + 1);
    return BERTH_OK;
}
