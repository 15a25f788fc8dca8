/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/secret_refs.c - where secrets stand in a config: as a schema says, taken out when they
 * were pasted, put in for a driver, never left in what it answers. */
#include "core/secret/secret_refs.h"

#include "fixture.h"

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "scripted.h"

#define ID "0197c7c0-0000-7000-8000-00000000000a"
#define OTHER_ID "0197c7c0-0000-7000-8000-00000000000b"
#define CONFIG(members) "{\"provider\":\"schemed\"," members "}"

static struct {
    struct berth_arena arena;
    struct berth_error err;
} t;

static int tear_down(void **state)
{
    (void)state;
    berth_arena_clear(&t.arena);
    return 0;
}

/* --- a driver that is nothing but a schema --- */

struct schemed {
    struct berth_driver base;
    struct berth_driver_traits traits;
};

static void schemed_free(struct berth_driver *d)
{
    free(d);
}

static const struct berth_driver_ops schemed_ops = {.free = schemed_free};

static struct berth_registry *registry_with(const char *schema)
{
    struct berth_registry *registry;
    struct schemed *driver = calloc(1, sizeof *driver);
    driver->traits = (struct berth_driver_traits){.name = "schemed", .config_schema = schema};
    driver->base = (struct berth_driver){.ops = &schemed_ops, .traits = &driver->traits};
    assert_ok(&t, berth_registry_new(&registry, &t.err));
    assert_ok(&t, berth_builtins.add_drivers(registry, &t.err));
    assert_ok(&t, berth_registry_add(registry, "sandbox", "schemed", &driver->base, &t.err));
    return registry;
}

static void registry_end(struct berth_registry **registry)
{
    berth_registry_free(*registry);
}
#define auto_registry auto_clean(registry_end) struct berth_registry

/* --- paths --- */

/* The paths of a schema as one text: "apiKey auth.token". */
static const char *paths_of(const char *schema)
{
    auto_json *parsed = parse_json(schema);
    struct berth_list paths;
    assert_ok(&t, berth_secret_ref_paths(&t.arena, parsed, &paths, &t.err));
    const char *all = "";
    for (int i = 0; i < paths.count; i++)
        all = berth_arena_printf(&t.arena, "%s%s%s", all, *all ? " " : "",
                                 (const char *)paths.items[i]);
    return all;
}

#define REF "{\"type\":\"string\",\"format\":\"secret-ref\"}"

static void paths_of_a_schema(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *paths;
    } known[] = {
        {SCRIPTED_SCHEMA, "apiKey auth.token"},
        {"{}", ""},
        {"{\"format\":\"secret-ref\"}", ""}, /* the config itself is not a secret */
        {"{\"properties\":{\"a\":{\"format\":\"uri\"},\"b\":{}}}", ""},
        {"{\"properties\":{\"a\":{\"properties\":{\"b\":{\"properties\":{\"c\":" REF "}}}}}}",
         "a.b.c"},
        {"{\"allOf\":[{\"properties\":{\"a\":" REF "}}],\"anyOf\":[{\"properties\":{\"b\":" REF
         "}},{\"properties\":{\"c\":" REF "}}],\"oneOf\":[{\"properties\":{\"d\":" REF "}}]}",
         "a b c d"},
        {"{\"properties\":{\"x\":{\"oneOf\":[{\"properties\":{\"a\":" REF
         "}},{\"anyOf\":[{\"properties\":{\"b\":" REF "}}]}]}}}",
         "x.a x.b"},
        {"{\"properties\":{\"list\":{\"items\":{\"properties\":{\"a\":" REF "}}}}}", ""},
        {"{\"properties\":{\"a\":{\"$ref\":\"#/$defs/s\"}},\"$defs\":{\"s\":" REF "}}", ""},
        {"{\"additionalProperties\":" REF ",\"patternProperties\":{\".*\":" REF "}}", ""},
        {"{\"properties\":{\"format\":{\"type\":\"string\"}}}", ""},
        {"{\"properties\":[],\"allOf\":{\"a\":1},\"anyOf\":3,\"oneOf\":[1,null,\"x\"]}", ""},
        {"{\"properties\":{\"a\":true,\"b\":null,\"c\":{\"format\":7}}}", ""},
        {"[]", ""},
        {"null", ""},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_string_equal(paths_of(known[i].schema), known[i].paths);
}

/* A property that several branches mention is still one property: it is bound once. */
static void path_is_named_once(void **state)
{
    (void)state;
    assert_string_equal(paths_of("{\"properties\":{\"a\":" REF
                                 "},\"anyOf\":[{\"properties\":{\"a\":" REF
                                 "}},{\"properties\":{\"a\":" REF ",\"b\":" REF "}}]}"),
                        "a b");
}

/* --- references --- */

static struct berth_list references(const struct berth_registry *registry, const char *driver,
                                    const char *config)
{
    auto_json *parsed = parse_json(config);
    struct berth_list out;
    assert_ok(&t, berth_secret_refs_of(registry, &t.arena, driver, parsed, &out, &t.err));
    return out;
}

static void references_are_ids_at_the_paths(void **state)
{
    (void)state;
    auto_registry *registry = registry_with(SCRIPTED_SCHEMA);
    struct berth_list found = references(
        registry, "sandbox", CONFIG("\"apiKey\":\"" ID "\",\"auth\":{\"token\":\"" OTHER_ID "\"}"));
    assert_int_equal(found.count, 2);
    const struct berth_secret_ref *r = found.items[0];
    assert_string_equal(r->path, "apiKey");
    assert_string_equal(r->put_at, "apiKey");
    assert_string_equal(r->secret_id, ID);
    assert_int_equal(r->version, 0);
    r = found.items[1];
    assert_string_equal(r->path, "auth.token");
    assert_string_equal(r->secret_id, OTHER_ID);

    static const char *const none[] = {
        "{\"provider\":\"schemed\"}",
        CONFIG("\"image\":\"" ID "\""), /* an id in another field is not a reference */
        CONFIG("\"apiKey\":\"no id\",\"auth\":\"" ID "\""),
        CONFIG("\"apiKey\":{\"secretId\":\"" ID "\"},\"auth\":[\"" ID "\"]"),
        CONFIG("\"apiKey\":null,\"auth\":{\"token\":7}"),
        "{\"provider\":\"another\",\"apiKey\":\"" ID "\"}",
        "{\"apiKey\":\"" ID "\"}",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(references(registry, "sandbox", none[i]).count, 0);
    assert_int_equal(references(registry, "local", CONFIG("\"apiKey\":\"" ID "\"")).count, 0);
}

static void ssh_has_its_own_form(void **state)
{
    (void)state;
    auto_registry *registry = registry_with(SCRIPTED_SCHEMA);
    struct berth_list found = references(
        registry, "ssh",
        "{\"host\":\"h\",\"privateKey\":null,\"privateKeySecretRef\":{\"type\":\"secret_ref\","
        "\"secretId\":\"" ID "\",\"version\":3}}");
    assert_int_equal(found.count, 1);
    const struct berth_secret_ref *r = found.items[0];
    assert_string_equal(r->path, "privateKeySecretRef");
    assert_string_equal(r->put_at, "privateKey");
    assert_string_equal(r->secret_id, ID);
    assert_int_equal(r->version, 3);
    found =
        references(registry, "ssh",
                   "{\"privateKeySecretRef\":{\"secretId\":\"" ID "\",\"version\":\"latest\"}}");
    assert_int_equal(((const struct berth_secret_ref *)found.items[0])->version, 0);
    assert_int_equal(references(registry, "ssh", "{\"privateKeySecretRef\":null}").count, 0);
    assert_int_equal(references(registry, "ssh", "{\"privateKey\":\"k\"}").count, 0);
}

/* --- pasted values --- */

/* Takes; the config is as text afterwards, ids that were made as "ID". */
static const char *take(const struct berth_registry *registry, const char *driver,
                        const char *config, struct berth_list *pasted)
{
    auto_json *parsed = parse_json(config);
    *pasted = (struct berth_list){0};
    assert_ok(&t, berth_secret_refs_take(registry, &t.arena, driver, parsed, pasted, &t.err));
    char *text = berth_json_canonical_in(&t.arena, parsed);
    for (int i = 0; i < pasted->count; i++) {
        const struct berth_pasted *p = pasted->items[i];
        assert_true(berth_id_valid(p->secret_id));
        char *at = strstr(text, p->secret_id);
        assert_non_null(at);
        (void)memmove(at + 2, at + strlen(p->secret_id), strlen(at + strlen(p->secret_id)) + 1);
        memcpy(at, "ID", 2);
    }
    return text;
}

static void assert_pasted(const struct berth_list *pasted, int at, const char *path,
                          const char *field, const char *value)
{
    assert_true(at < pasted->count);
    const struct berth_pasted *p = pasted->items[at];
    assert_string_equal(p->path, path);
    assert_string_equal(p->field, field);
    assert_int_equal(p->value.len, strlen(value));
    assert_string_equal(p->value.bytes, value);
}

static void pasted_values_give_way_to_ids(void **state)
{
    (void)state;
    auto_registry *registry = registry_with(SCRIPTED_SCHEMA);
    struct berth_list pasted;
    assert_string_equal(
        take(registry, "sandbox",
             CONFIG("\"apiKey\":\" \\n\\tk\\u00e9y 1\\r\\n \",\"auth\":{\"token\":\"t\",\"user\":"
                    "\"u\"}"),
             &pasted),
        "{\"apiKey\":\"ID\",\"auth\":{\"token\":\"ID\",\"user\":\"u\"},\"provider\":\"schemed\"}");
    assert_int_equal(pasted.count, 2);
    assert_pasted(&pasted, 0, "apiKey", "apikey", "k\xc3\xa9y 1");
    assert_pasted(&pasted, 1, "auth.token", "auth-token", "t");
    assert_string_not_equal(((struct berth_pasted *)pasted.items[0])->secret_id,
                            ((struct berth_pasted *)pasted.items[1])->secret_id);
    berth_pasted_clear(&pasted);
    assert_int_equal(pasted.count, 0);
}

/* A config is looked through twice: what was found before stays in the list. */
static void taking_adds_to_the_list(void **state)
{
    (void)state;
    auto_registry *registry = registry_with(SCRIPTED_SCHEMA);
    auto_json *config = parse_json(CONFIG("\"apiKey\":\"one\""));
    struct berth_list pasted = {0};
    for (int i = 0; i < 2; i++) {
        assert_ok(&t,
                  berth_secret_refs_take(registry, &t.arena, "sandbox", config, &pasted, &t.err));
        assert_int_equal(pasted.count, 1);
    }
    assert_true(berth_json_set(config, "apiKey", berth_json_new_str("two")));
    assert_ok(&t, berth_secret_refs_take(registry, &t.arena, "sandbox", config, &pasted, &t.err));
    assert_int_equal(pasted.count, 2);
    assert_pasted(&pasted, 0, "apiKey", "apikey", "one");
    assert_pasted(&pasted, 1, "apiKey", "apikey", "two");
    berth_pasted_clear(&pasted);
}

static void blank_values_go_and_ids_stay(void **state)
{
    (void)state;
    auto_registry *registry = registry_with(SCRIPTED_SCHEMA);
    struct berth_list pasted;
    static const char *const blank[] = {"", " ", "\\t\\n \\r\\f\\u000b"};
    for (size_t i = 0; i < sizeof blank / sizeof *blank; i++) {
        const char *config = berth_arena_printf(
            &t.arena, CONFIG("\"apiKey\":\"%s\",\"auth\":{\"token\":\"%s\"}"), blank[i], blank[i]);
        assert_string_equal(take(registry, "sandbox", config, &pasted),
                            "{\"auth\":{},\"provider\":\"schemed\"}");
        assert_int_equal(pasted.count, 0);
    }
    static const char *const kept[] = {
        "{\"apiKey\":\"" ID "\",\"auth\":{\"token\":\"" OTHER_ID "\"},\"provider\":\"schemed\"}",
        "{\"apiKey\":null,\"auth\":null,\"provider\":\"schemed\"}",
        "{\"apiKeys\":\"x\",\"provider\":\"schemed\",\"token\":\"y\"}",
        "{\"apiKey\":\"x\",\"provider\":\"another\"}",
        "{\"auth\":\"x\",\"provider\":\"schemed\"}",
    };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        assert_string_equal(take(registry, "sandbox", kept[i], &pasted), kept[i]);
        assert_int_equal(pasted.count, 0);
    }
}

static void placeholder_is_refused(void **state)
{
    (void)state;
    auto_registry *registry = registry_with(SCRIPTED_SCHEMA);
    struct berth_list pasted = {0};
    auto_json *config =
        parse_json(CONFIG("\"apiKey\":\"fine\",\"auth\":{\"token\":\" ***REDACTED*** \"}"));
    assert_fails(&t, BERTH_E_UNPROCESSABLE,
                 "Refusing to persist redacted placeholder for key: auth.token",
                 berth_secret_refs_take(registry, &t.arena, "sandbox", config, &pasted, &t.err));
    assert_int_equal(pasted.count, 1); /* what was taken before is still the caller's */
    berth_pasted_clear(&pasted);
    auto_json *ssh = parse_json("{\"privateKey\":\"***REDACTED***\"}");
    assert_fails(&t, BERTH_E_UNPROCESSABLE, "Refusing to persist redacted placeholder for key: ",
                 berth_secret_refs_take(registry, &t.arena, "ssh", ssh, &pasted, &t.err));
    assert_int_equal(pasted.count, 0);
}

static void value_that_is_too_long_is_refused(void **state)
{
    (void)state;
    auto_registry *registry = registry_with(SCRIPTED_SCHEMA);
    struct berth_list pasted = {0};
    auto_free char *long_one = malloc(BERTH_SECRET_BYTES_MAX + 2);
    assert_non_null(long_one);
    memset(long_one, 'k', BERTH_SECRET_BYTES_MAX + 1);
    long_one[BERTH_SECRET_BYTES_MAX + 1] = '\0';
    auto_json *ssh = berth_json_new_object();
    assert_true(berth_json_set(ssh, "privateKey", berth_json_new_str(long_one)));
    assert_fails(&t, BERTH_E_TOO_LARGE,
                 "The value of privateKeySecretRef is longer than 65536 bytes.",
                 berth_secret_refs_take(registry, &t.arena, "ssh", ssh, &pasted, &t.err));
    assert_int_equal(pasted.count, 0);
}

/* A provider may name a property as it likes; a value pasted there is not to stay in the config. */
static void odd_names_are_found_too(void **state)
{
    (void)state;
    char *long_name = berth_arena_alloc(&t.arena, 301);
    memset(long_name, 'k', 300);
    const char *const names[] = {"api.key", "api key", "api\\\"key", "", long_name, "a..b", "."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        auto_registry *registry = registry_with(
            berth_arena_printf(&t.arena, "{\"properties\":{\"%s\":" REF "}}", names[i]));
        const char *config = berth_arena_printf(&t.arena, CONFIG("\"%s\":\"canary\""), names[i]);
        auto_json *parsed = parse_json(config);
        struct berth_list pasted = {0};
        int rc = berth_secret_refs_take(registry, &t.arena, "sandbox", parsed, &pasted, &t.err);
        const char *left = berth_json_canonical_in(&t.arena, parsed);
        if (rc == BERTH_OK && strstr(left, "canary")) /* refused is fine, kept is not */
            fail_msg("\"%.20s\" keeps its value", names[i]);
        berth_pasted_clear(&pasted);
    }
}

/* What is neither a text nor nothing cannot be a reference, and may well be the secret. */
static void values_that_are_no_text_are_not_kept(void **state)
{
    (void)state;
    auto_registry *registry = registry_with(SCRIPTED_SCHEMA);
    static const char *const values[] = {"8675309", "[\"canary\"]", "{\"value\":\"canary\"}",
                                         "86.75"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        auto_json *config =
            parse_json(berth_arena_printf(&t.arena, CONFIG("\"apiKey\":%s"), values[i]));
        struct berth_list pasted = {0};
        int rc = berth_secret_refs_take(registry, &t.arena, "sandbox", config, &pasted, &t.err);
        if (rc == BERTH_OK && berth_json_get(config, "apiKey"))
            fail_msg("%s stays in the config", values[i]);
    }
}

static void ssh_key_is_taken(void **state)
{
    (void)state;
    auto_registry *registry = registry_with(SCRIPTED_SCHEMA);
    struct berth_list pasted;
    assert_string_equal(
        take(registry, "ssh", "{\"host\":\"h\",\"privateKey\":\"\\nBEGIN\\nEND\\n\"}", &pasted),
        "{\"host\":\"h\",\"privateKey\":null,\"privateKeySecretRef\":{\"secretId\":\"ID\","
        "\"type\":\"secret_ref\",\"version\":\"latest\"}}");
    assert_int_equal(pasted.count, 1);
    assert_pasted(&pasted, 0, "privateKeySecretRef", "private-key", "BEGIN\nEND");
    berth_pasted_clear(&pasted);
    static const char *const kept[] = {"{\"host\":\"h\"}", "{\"privateKey\":null}"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        assert_string_equal(take(registry, "ssh", kept[i], &pasted), kept[i]);
        assert_int_equal(pasted.count, 0);
    }
}

/* --- values into a config --- */

struct filled {
    struct berth_locked text;
    int rc;
};

static void filled_end(struct filled *f)
{
    berth_locked_clear(&f->text);
}
#define auto_filled auto_clean(filled_end) struct filled

/* One value at each of the paths, which NULL ends. */
static struct filled fill(const char *config, const char *const *paths, const char *value,
                          size_t len)
{
    auto_json *parsed = parse_json(config);
    struct berth_list refs = {0};
    struct berth_locked values[4] = {BERTH_LOCKED_INIT};
    for (int i = 0; paths[i]; i++) {
        struct berth_secret_ref *r = berth_arena_alloc(&t.arena, sizeof *r);
        *r = (struct berth_secret_ref){.path = paths[i], .put_at = paths[i], .secret_id = ID};
        assert_true(berth_list_add(&refs, &t.arena, r));
        assert_ok(&t, berth_locked_new(len, &values[i], &t.err));
        berth_locked_append(&values[i], value, len);
    }
    struct filled out = {.text = BERTH_LOCKED_INIT};
    out.rc = berth_secret_refs_fill(parsed, &refs, values, &out.text, &t.err);
    for (int i = 0; paths[i]; i++)
        berth_locked_clear(&values[i]);
    return out;
}

static const char *const at_key[] = {"apiKey", NULL};

static void values_stand_where_ids_stood(void **state)
{
    (void)state;
    static const struct {
        const char *config, *paths[3], *text;
    } known[] = {
        {"{\"apiKey\":\"" ID "\"}", {"apiKey"}, "{\"apiKey\":\"v\"}"},
        {"{\"z\":1,\"auth\":{\"token\":\"" ID "\",\"user\":\"u\"},\"a\":[{\"auth\":2}]}",
         {"auth.token"},
         "{\"a\":[{\"auth\":2}],\"auth\":{\"token\":\"v\",\"user\":\"u\"},\"z\":1}"},
        {"{\"a\":{\"b\":{\"c\":\"" ID "\"},\"c\":null},\"b\":{},\"c\":\"" ID "\"}",
         {"a.b.c"},
         "{\"a\":{\"b\":{\"c\":\"v\"},\"c\":null},\"b\":{},\"c\":\"" ID "\"}"},
        {"{\"a\":\"" ID "\",\"b\":\"" ID "\"}", {"a", "b"}, "{\"a\":\"v\",\"b\":\"v\"}"},
        {"{\"q\\\"\\\\\\n\":true,\"apiKey\":\"" ID "\"}",
         {"apiKey"},
         "{\"apiKey\":\"v\",\"q\\\"\\\\\\n\":true}"},
        {"{\"apiKeys\":\"x\",\"apiKey\":\"" ID "\"}",
         {"apiKey"},
         "{\"apiKey\":\"v\",\"apiKeys\":\"x\"}"},
        {"{}", {NULL}, "{}"},
        {"{\"privateKey\":null,\"host\":\"h\"}",
         {"privateKey"},
         "{\"host\":\"h\",\"privateKey\":\"v\"}"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        auto_filled out = fill(known[i].config, known[i].paths, "v", 1);
        assert_int_equal(out.rc, BERTH_OK);
        auto_json *got = parse_json(out.text.bytes), *wanted = parse_json(known[i].text);
        if (!berth_json_equal(got, wanted))
            fail_msg("%s is no %s", out.text.bytes, known[i].text);
        assert_int_equal(strlen(out.text.bytes), out.text.len);
    }
}

/* Whatever text it is, a parser gets it back to the byte. */
static void values_are_escaped(void **state)
{
    (void)state;
    char every[256 + 16];
    size_t len = 0;
    for (int c = 0; c < 0x80; c++)
        every[len++] = (char)c;
    memcpy(every + len, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\x91\"\\", 11);
    len += 11;
    auto_filled out = fill("{\"apiKey\":\"" ID "\"}", at_key, every, len);
    assert_int_equal(out.rc, BERTH_OK);
    auto_json *back = NULL; /* as Node reads it: NUL is a character */
    assert_ok(&t,
              berth_json_parse(out.text.bytes, out.text.len, BERTH_JSON_FOREIGN, &back, &t.err));
    const struct berth_json *value = berth_json_get(back, "apiKey");
    assert_int_equal(berth_json_str_len(value), len);
    assert_memory_equal(berth_json_str(value), every, len);
    assert_int_equal(strlen(out.text.bytes), out.text.len);

    enum { MIB = 1024 * 1024 };
    auto_free char *big = malloc(MIB);
    memset(big, '\1', MIB); /* each takes six characters */
    auto_filled large = fill("{\"apiKey\":\"" ID "\"}", at_key, big, MIB);
    assert_int_equal(large.rc, BERTH_OK);
    assert_int_equal(large.text.len, (size_t)MIB * 6 + strlen("{\"apiKey\":\"\"}"));
}

static void value_that_is_no_text_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
    } wrong[] = {{"\xff", 1},      {"ab\x80", 3},           {"\xc3", 1},    {"\xed\xa0\x80", 3},
                 {"a\0\xc3\0", 4}, {"\xf4\x90\x80\x80", 4}, {"\xc0\x80", 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        auto_filled out = fill("{\"apiKey\":\"" ID "\"}", at_key, wrong[i].bytes, wrong[i].len);
        assert_fails(&t, BERTH_E_UNPROCESSABLE,
                     "The secret at apiKey is not UTF-8 text and cannot stand in a config.",
                     out.rc);
        assert_null(out.text.bytes);
    }
}

/* "a.b" as a key is not b in a: it is left alone, and the text still has room for all. */
static void key_with_a_dot_is_no_path(void **state)
{
    (void)state;
    static const char *const at_token[] = {"auth.token", NULL};
    char value[400];
    memset(value, '\n', sizeof value);
    auto_filled out = fill("{\"auth\":{\"token\":\"" ID "\"},\"auth.token\":\"mine\"}", at_token,
                           value, sizeof value);
    assert_int_equal(out.rc, BERTH_OK);
    auto_json *back = parse_json(out.text.bytes);
    assert_string_equal(berth_json_str(berth_json_get(back, "auth.token")), "mine");
    assert_int_equal(berth_json_str_len(berth_json_get(berth_json_get(back, "auth"), "token")),
                     sizeof value);
}

static void ssh_key_is_put_in(void **state)
{
    (void)state;
    auto_registry *registry = registry_with(SCRIPTED_SCHEMA);
    auto_json *config =
        parse_json("{\"host\":\"h\",\"privateKey\":null,\"privateKeySecretRef\":{\"type\":"
                   "\"secret_ref\",\"secretId\":\"" ID "\"}}");
    struct berth_list refs;
    assert_ok(&t, berth_secret_refs_of(registry, &t.arena, "ssh", config, &refs, &t.err));
    assert_int_equal(refs.count, 1);
    auto_locked value = BERTH_LOCKED_INIT, out = BERTH_LOCKED_INIT;
    assert_ok(&t, berth_locked_new(3, &value, &t.err));
    berth_locked_append(&value, "key", 3);
    assert_ok(&t, berth_secret_refs_fill(config, &refs, &value, &out, &t.err));
    auto_json *back = parse_json(out.bytes);
    assert_string_equal(berth_json_str(berth_json_get(back, "privateKey")), "key");
    assert_string_equal(berth_json_str(berth_json_get(back, "host")), "h");
}

/* --- what a driver answers --- */

static void stripping_removes_empty_parents(void **state)
{
    (void)state;
    static const struct {
        const char *object, *path, *left;
    } known[] = {
        {"{\"apiKey\":\"v\",\"b\":1}", "apiKey", "{\"b\":1}"},
        {"{\"auth\":{\"token\":\"v\"},\"b\":1}", "auth.token", "{\"b\":1}"},
        {"{\"auth\":{\"token\":\"v\",\"user\":\"u\"}}", "auth.token",
         "{\"auth\":{\"user\":\"u\"}}"},
        {"{\"a\":{\"b\":{\"c\":[1]}}}", "a.b.c", "{}"},
        {"{\"a\":{\"b\":{\"c\":1},\"d\":2}}", "a.b.c", "{\"a\":{\"d\":2}}"},
        {"{\"apiKey\":{\"x\":1}}", "apiKey", "{}"},
        {"{\"auth\":\"text\"}", "auth.token", "{\"auth\":\"text\"}"},
        {"{\"other\":{}}", "auth.token", "{\"other\":{}}"},
        {"{}", "a.b.c", "{}"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        auto_json *object = parse_json(known[i].object);
        struct berth_secret_ref r = {.path = known[i].path, .put_at = known[i].path};
        struct berth_list refs = {0};
        assert_true(berth_list_add(&refs, &t.arena, &r));
        berth_secret_refs_strip(object, &refs);
        assert_string_equal(berth_json_canonical_in(&t.arena, object), known[i].left);
    }
}

#define CLEANED(test) cmocka_unit_test_teardown(test, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLEANED(paths_of_a_schema),
        CLEANED(path_is_named_once),
        CLEANED(references_are_ids_at_the_paths),
        CLEANED(ssh_has_its_own_form),
        CLEANED(pasted_values_give_way_to_ids),
        CLEANED(taking_adds_to_the_list),
        CLEANED(blank_values_go_and_ids_stay),
        CLEANED(placeholder_is_refused),
        CLEANED(value_that_is_too_long_is_refused),
        CLEANED(odd_names_are_found_too),
        CLEANED(values_that_are_no_text_are_not_kept),
        CLEANED(ssh_key_is_taken),
        CLEANED(values_stand_where_ids_stood),
        CLEANED(values_are_escaped),
        CLEANED(value_that_is_no_text_is_refused),
        CLEANED(ssh_key_is_put_in),
        CLEANED(stripping_removes_empty_parents),
        CLEANED(key_with_a_dot_is_no_path),
    };
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
