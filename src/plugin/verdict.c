/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/verdict.c - see verdict.h. It runs on the engine's thread, so what is looked at is
 * bounded first. */
#include "plugin/verdict.h"

#include <string.h>

#include "base/auto.h"
#include "base/limits.h"

#define VERDICT_BYTES_MAX (4 * BERTH_CONFIG_BYTES_MAX)

/* Takes the bytes of its texts off `left`; false: there are more. */
static bool verdict_fits(const struct berth_json *value, size_t *left)
{
    size_t here = 1 + berth_json_str_len(value);
    if (here > *left)
        return false;
    *left -= here;
    for (size_t i = 0; berth_json_is(value, BERTH_JSON_ARRAY) && i < berth_json_count(value); i++)
        if (!verdict_fits(berth_json_at(value, i), left))
            return false;
    if (!berth_json_is(value, BERTH_JSON_OBJECT))
        return true;
    berth_json_each (value, iter) {
        size_t key = strlen(berth_json_iter_key(iter));
        if (key > *left)
            return false;
        *left -= key;
        if (!verdict_fits(berth_json_iter_value(iter), left))
            return false;
    }
    return true;
}

/* Is the text one of those in the value, be it as a key? */
static bool has_text(const struct berth_json *value, const char *text)
{
    if (berth_json_is(value, BERTH_JSON_STRING))
        return strcmp(berth_json_str(value), text) == 0;
    for (size_t i = 0; berth_json_is(value, BERTH_JSON_ARRAY) && i < berth_json_count(value); i++)
        if (has_text(berth_json_at(value, i), text))
            return true;
    if (!berth_json_is(value, BERTH_JSON_OBJECT))
        return false;
    berth_json_each (value, iter)
        if (strcmp(berth_json_iter_key(iter), text) == 0 ||
            has_text(berth_json_iter_value(iter), text))
            return true;
    return false;
}

/* Does it say a secret that was told with another call? What `sent` has is the caller's own. */
static bool verdict_tells(struct berth_worker_log *log, const struct berth_json *value,
                          const struct berth_json *sent)
{
    const char *text = berth_json_str(value);
    if (text)
        return berth_worker_log_shows(log, text, berth_json_str_len(value)) &&
               !has_text(sent, text);
    for (size_t i = 0; berth_json_is(value, BERTH_JSON_ARRAY) && i < berth_json_count(value); i++)
        if (verdict_tells(log, berth_json_at(value, i), sent))
            return true;
    if (!berth_json_is(value, BERTH_JSON_OBJECT))
        return false;
    berth_json_each (value, iter) {
        const char *key = berth_json_iter_key(iter);
        if ((berth_worker_log_shows(log, key, strlen(key)) && !has_text(sent, key)) ||
            verdict_tells(log, berth_json_iter_value(iter), sent))
            return true;
    }
    return false;
}

/* A list of texts with everything hidden that the worker was ever told; the caller's. */
static struct berth_json *clean_texts(struct berth_worker_log *log, const struct berth_json *list)
{
    struct berth_json *out = berth_json_new_array();
    for (size_t i = 0; out && i < berth_json_count(list); i++) {
        const struct berth_json *text = berth_json_at(list, i);
        auto_free char *clean =
            berth_json_is(text, BERTH_JSON_STRING)
                ? berth_worker_log_clean(log, berth_json_str(text), berth_json_str_len(text))
                : NULL;
        if (clean && !berth_json_add(out, berth_json_new_str(clean))) {
            berth_json_free(out);
            return NULL;
        }
    }
    return out;
}

static int verdict_no_memory(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: answer.");
}

int berth_verdict_clean(struct berth_worker_log *log, const char *sent,
                        const struct berth_json *result, struct berth_json **out,
                        struct berth_error *err)
{
    static const char *const lists[] = {"errors", "warnings"};
    auto_json *params = NULL;
    size_t left = VERDICT_BYTES_MAX;
    if (!verdict_fits(result, &left))
        return berth_fail(err, BERTH_E_UPSTREAM, "The worker says too much about a config.");
    if (berth_json_parse(sent, strlen(sent), BERTH_JSON_OURS, &params, err) < 0)
        return err->code;
    if (verdict_tells(log, berth_json_get(result, "normalizedConfig"), params))
        return berth_fail(err, BERTH_E_UPSTREAM,
                          "The worker answered with a secret of somebody else.");
    auto_json *clean = berth_json_copy(result);
    if (!clean)
        return verdict_no_memory(err);
    for (int i = 0; i < 2; i++) {
        const struct berth_json *list = berth_json_get(result, lists[i]);
        if (berth_json_is(list, BERTH_JSON_ARRAY) &&
            !berth_json_set(clean, lists[i], clean_texts(log, list)))
            return verdict_no_memory(err);
    }
    *out = take_ptr(clean);
    return BERTH_OK;
}
