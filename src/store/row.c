/* SPDX-License-Identifier: Apache-2.0
 * src/store/row.c - see row.h. */
#include "store/row.h"

#include <string.h>

int berth_enum_find(const struct berth_enum *type, const char *name)
{
    for (int i = 0; type->names[i]; i++)
        if (strcmp(type->names[i], name) == 0)
            return i;
    return -1;
}

int berth_enum_read(const struct berth_enum *type, const struct berth_value *value, int *out,
                    struct berth_error *err)
{
    const char *text = value->type == BERTH_VALUE_TEXT ? value->text : "null";
    *out = berth_enum_find(type, text);
    if (*out < 0)
        return berth_fail(err, BERTH_E_INTERNAL, "Unexpected %s value: %.200s", type->field, text);
    return BERTH_OK;
}
