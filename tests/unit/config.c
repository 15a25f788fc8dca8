/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/config.c - what an environment's config may say: rules, defaults and texts. */
#include "fixture.h"

#include "base/auto.h"
#include "base/issues.h"
#include "core/driver.h"
#include "core/environment/config.h"

#define SECRET_ID "0198c5d2-7c1e-7000-8000-00000000abcd"
#define SSH_GOOD "\"host\":\"h\",\"username\":\"u\",\"remoteWorkspacePath\":\"/w\""
#define KEY_SHAPE                                                                                  \
    " must start with a lowercase alphanumeric and contain only lowercase letters, digits, dots, " \
    "hyphens, or underscores"
#define LOCAL_EMPTY_SHA256 "f1d3848ea39a610ba6728f57e310144a78c2c82c97d9c785dddfc9679ab19ed2"
#define NO_INLINE_KEY                                                                              \
    "An SSH private key is not stored in the config: store it as a secret and name it in "         \
    "privateKeySecretRef, or let your SSH agent hold it."

static const enum berth_config_use all_uses[] = {BERTH_CONFIG_SCHEMA, BERTH_CONFIG_PROBE,
                                                 BERTH_CONFIG_PERSIST};
#define USES ((int)(sizeof all_uses / sizeof all_uses[0]))

static struct berth_registry *registry;
static int asked; /* how often a provider had its say */

/* --- a provider with opinions --- */

static int picky_validate(struct berth_driver *d, struct berth_call *call, const char *config_json,
                          enum berth_config_use use, struct berth_issues *issues,
                          const char **normalised, struct berth_error *err)
{
    (void)d, (void)use;
    asked++;
    auto_json *config = parse_json(config_json);
    const char *mood = berth_json_str(berth_json_get(config, "mood"));
    if (!mood)
        return BERTH_OK; /* as it is */
    if (strcmp(mood, "bad") == 0) {
        berth_issues_add(issues, "mood", "No such mood.");
        berth_issues_add(issues, "region", "No such region.");
        return BERTH_OK;
    }
    if (strcmp(mood, "away") == 0)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "The provider is away.");
    if (strcmp(mood, "silent") == 0)
        *normalised = NULL;
    else if (strcmp(mood, "bare") == 0)
        *normalised = "{\"region\":\"eu\",\"reuseLease\":false}";
    else
        *normalised = berth_arena_strdup(
            call->arena, "{\"provider\":\"picky\",\"region\":\"eu\",\"reuseLease\":true}");
    return BERTH_OK;
}

static void picky_free(struct berth_driver *d)
{
    (void)d;
}

static const struct berth_driver_ops picky_ops = {.validate = picky_validate, .free = picky_free};
static const struct berth_driver_traits picky_traits = {.name = "picky"};
static struct berth_driver picky = {.ops = &picky_ops, .traits = &picky_traits};
static const struct berth_driver_ops silent_ops = {.free = picky_free};
static const struct berth_driver_traits silent_traits = {.name = "silent"};
static struct berth_driver silent = {.ops = &silent_ops, .traits = &silent_traits};

static int make_registry(void **state)
{
    (void)state;
    struct berth_error err;
    if (berth_registry_new(&registry, &err) < 0 || berth_builtins.add_drivers(registry, &err) < 0 ||
        berth_registry_add(registry, "sandbox", "picky", &picky, &err) < 0 ||
        berth_registry_add(registry, "sandbox", "silent", &silent, &err) < 0) {
        print_error("registry: %s\n", err.message);
        return -1;
    }
    return 0;
}

static int drop_registry(void **state)
{
    (void)state;
    berth_registry_free(registry);
    return 0;
}

/* --- how the tests ask --- */

#define assert_normalises(driver, use, config, expected)                                           \
    normalises_at(driver, use, config, expected, __FILE__, __LINE__)

static void normalises_at(enum berth_environment_driver driver, enum berth_config_use use,
                          const char *config, const char *expected, const char *file, int line)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_issues issues = {.arena = &arena};
    struct berth_error err = {0};
    auto_json *in = config ? parse_json(config) : NULL;
    auto_json *before = in ? berth_json_copy(in) : NULL;
    auto_json *wanted = parse_json(expected);
    auto_json *out = NULL;
    int rc = berth_config_normalise(registry, driver, in, use, &issues, &out, &err);
    assert_ok_at(rc, &err, config ? config : "(no config)", file, line);
    auto_free char *got_text = berth_json_canonical(out);
    auto_free char *wanted_text = berth_json_canonical(wanted);
    _assert_string_equal(got_text, wanted_text, file, line);
    _assert_int_equal(issues.list.count, 0, file, line);
    if (in)
        _assert_true(berth_json_equal(in, before), "the caller's config is untouched", file, line);
}

/* All faults, in this order: assert_refuses(driver, use, config, AT(path, message), ...). */
#define AT(path, message) path, message
#define assert_refuses(driver, use, config, ...)                                                   \
    refuses_at(__FILE__, __LINE__, driver, use, config, (const char *[]){__VA_ARGS__, NULL})

static void refuses_at(const char *file, int line, enum berth_environment_driver driver,
                       enum berth_config_use use, const char *config, const char **pairs)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_issues issues = {.arena = &arena};
    struct berth_error err = {0};
    auto_json *in = parse_json(config);
    struct berth_json *out = NULL;
    int rc = berth_config_normalise(registry, driver, in, use, &issues, &out, &err);
    assert_fails_at(rc, BERTH_E_UNPROCESSABLE, pairs[1], &err, config, file, line);
    _assert_string_equal(err.message, pairs[1], file, line);
    _assert_true(out == NULL, "no config comes out of a refusal", file, line);
    int count = 0;
    for (; pairs[2 * count]; count++) {
        if (count >= issues.list.count)
            break;
        const struct berth_issue *issue = issues.list.items[count];
        _assert_string_equal(issue->path, pairs[2 * count], file, line);
        _assert_string_equal(issue->message, pairs[2 * count + 1], file, line);
    }
    if (pairs[2 * count] || count < issues.list.count) {
        print_error("%s\n  gave %d issues\n", config, issues.list.count);
        for (int i = 0; i < issues.list.count; i++)
            print_error("  %s\n", ((struct berth_issue *)issues.list.items[i])->message);
        _fail(file, line);
    }
}

/* A refusal that does not concern a field: one message without an issue. */
static void assert_denied(enum berth_environment_driver driver, const char *config, int code,
                          const char *message)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_issues issues = {.arena = &arena};
    struct berth_error err = {0};
    auto_json *in = parse_json(config);
    struct berth_json *out = NULL;
    int rc =
        berth_config_normalise(registry, driver, in, BERTH_CONFIG_PERSIST, &issues, &out, &err);
    assert_fails_at(rc, code, message, &err, config, __FILE__, __LINE__);
    assert_string_equal(err.message, message);
    assert_int_equal(issues.list.count, 0);
    assert_null(out);
}

/* --- local --- */

static void local_takes_any_object_as_it_is(void **state)
{
    (void)state;
    for (int i = 0; i < USES; i++) {
        assert_normalises(BERTH_DRIVER_LOCAL, all_uses[i], "{}", "{}");
        const char *any = "{\"a\":[1,{\"b\":null}],\"host\":\" x \",\"port\":\"22\",\"\":true}";
        assert_normalises(BERTH_DRIVER_LOCAL, all_uses[i], any, any);
    }
}

static void what_is_no_object_counts_as_an_empty_one(void **state)
{
    (void)state;
    const char *const scalars[] = {"null", "[]", "[{\"host\":\"h\"}]", "\"text\"", "7", "true"};
    for (unsigned i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        for (int k = 0; k < USES; k++)
            assert_normalises(BERTH_DRIVER_LOCAL, all_uses[k], scalars[i], "{}");
        assert_normalises(
            BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, scalars[i],
            "{\"provider\":\"fake\",\"image\":\"ubuntu:24.04\",\"reuseLease\":false}");
        assert_refuses(
            BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, scalars[i],
            AT("host", "SSH environments require a host."),
            AT("username", "SSH environments require a username."),
            AT("remoteWorkspacePath", "SSH environments require a remote workspace path."));
    }
    assert_normalises(BERTH_DRIVER_LOCAL, BERTH_CONFIG_PERSIST, NULL, "{}");
}

/* --- ssh --- */

#define SSH_FULL(port)                                                                             \
    "{\"host\":\"h\",\"port\":" port                                                               \
    ",\"username\":\"u\",\"remoteWorkspacePath\":\"/w\",\"privateKey\":null,"                      \
    "\"privateKeySecretRef\":null,\"knownHosts\":null,\"strictHostKeyChecking\":true}"

static void ssh_has_defaults(void **state)
{
    (void)state;
    for (int i = 0; i < USES; i++)
        assert_normalises(BERTH_DRIVER_SSH, all_uses[i], "{" SSH_GOOD "}", SSH_FULL("22"));
}

static void ssh_keeps_what_is_said(void **state)
{
    (void)state;
    const char *all = "{\"host\":\"h\",\"port\":2222,\"username\":\"u\","
                      "\"remoteWorkspacePath\":\"/w\",\"privateKey\":null,"
                      "\"privateKeySecretRef\":{\"type\":\"secret_ref\",\"secretId\":\"" SECRET_ID
                      "\",\"version\":3},\"knownHosts\":\"h ssh-ed25519 AAAA\","
                      "\"strictHostKeyChecking\":false}";
    for (int i = 0; i < USES; i++)
        assert_normalises(BERTH_DRIVER_SSH, all_uses[i], all, all);
}

static void ssh_trims_texts(void **state)
{
    (void)state;
    assert_normalises(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA,
                      "{\"host\":\" \\th\\n\",\"username\":\" u \","
                      "\"remoteWorkspacePath\":\"\\n/w dir/ \",\"knownHosts\":\" k \\n\"}",
                      "{\"host\":\"h\",\"port\":22,\"username\":\"u\","
                      "\"remoteWorkspacePath\":\"/w dir/\",\"privateKey\":null,"
                      "\"privateKeySecretRef\":null,\"knownHosts\":\"k\","
                      "\"strictHostKeyChecking\":true}");
    /* Nothing, null and blank are the same. */
    assert_normalises(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA,
                      "{" SSH_GOOD ",\"knownHosts\":\" \\n \"}", SSH_FULL("22"));
    assert_normalises(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA,
                      "{" SSH_GOOD ",\"knownHosts\":null,\"privateKeySecretRef\":null}",
                      SSH_FULL("22"));
}

static void ssh_requires_host_username_and_path(void **state)
{
    (void)state;
    for (int i = 0; i < USES; i++) {
        assert_refuses(BERTH_DRIVER_SSH, all_uses[i],
                       "{\"username\":\"u\",\"remoteWorkspacePath\":\"/w\"}",
                       AT("host", "SSH environments require a host."));
        assert_refuses(BERTH_DRIVER_SSH, all_uses[i],
                       "{\"host\":\" \",\"username\":\"u\",\"remoteWorkspacePath\":\"/w\"}",
                       AT("host", "SSH environments require a host."));
        assert_refuses(BERTH_DRIVER_SSH, all_uses[i],
                       "{\"host\":\"h\",\"remoteWorkspacePath\":\"/w\"}",
                       AT("username", "SSH environments require a username."));
        assert_refuses(BERTH_DRIVER_SSH, all_uses[i],
                       "{\"host\":\"h\",\"username\":\"\\t\",\"remoteWorkspacePath\":\"/w\"}",
                       AT("username", "SSH environments require a username."));
        assert_refuses(
            BERTH_DRIVER_SSH, all_uses[i], "{\"host\":\"h\",\"username\":\"u\"}",
            AT("remoteWorkspacePath", "SSH environments require a remote workspace path."));
        assert_refuses(
            BERTH_DRIVER_SSH, all_uses[i],
            "{\"host\":\"h\",\"username\":\"u\",\"remoteWorkspacePath\":\"  \"}",
            AT("remoteWorkspacePath", "SSH environments require a remote workspace path."));
        assert_refuses(BERTH_DRIVER_SSH, all_uses[i],
                       "{\"host\":\"h\",\"username\":\"u\",\"remoteWorkspacePath\":\"w/x\"}",
                       AT("remoteWorkspacePath", "SSH remote workspace path must be absolute."));
    }
    /* A value of another type is not a text either. */
    assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA,
                   "{\"host\":5,\"username\":null,\"remoteWorkspacePath\":[\"/w\"]}",
                   AT("host", "SSH environments require a host."),
                   AT("username", "SSH environments require a username."),
                   AT("remoteWorkspacePath", "SSH environments require a remote workspace path."));
}

/* They become arguments of ssh(1), where -oProxyCommand=... would run on this machine. */
static void ssh_refuses_what_reads_as_an_option(void **state)
{
    (void)state;
    assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA,
                   "{\"host\":\" -oProxyCommand=id\",\"username\":\"-l\","
                   "\"remoteWorkspacePath\":\"/w\"}",
                   AT("host", "An SSH host must not start with \"-\"."),
                   AT("username", "An SSH username must not start with \"-\"."));
}

static void ssh_port_is_coerced(void **state)
{
    (void)state;
    const struct {
        const char *said, *kept;
    } ports[] = {{"1", "1"},         {"65535", "65535"}, {"\"22\"", "22"}, {"\" 2200 \"", "2200"},
                 {"2222.0", "2222"}, {"\"80.0\"", "80"}, {"true", "1"},    {"\"1e3\"", "1000"},
                 {"\"0x16\"", "22"}};
    for (unsigned i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        char in[256], wanted[512];
        (void)snprintf(in, sizeof in, "{" SSH_GOOD ",\"port\":%s}", ports[i].said);
        (void)snprintf(wanted, sizeof wanted, SSH_FULL("%s"), ports[i].kept);
        assert_normalises(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, in, wanted);
    }
}

static void ssh_port_has_limits(void **state)
{
    (void)state;
    const char *const beyond[] = {"0",
                                  "-1",
                                  "65536",
                                  "1e300",
                                  "22.5",
                                  "\"0\"",
                                  "\"\"",
                                  "null",
                                  "false",
                                  "\"22.5\"",
                                  "\"99999999999999999999\""};
    for (unsigned i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        char in[256];
        (void)snprintf(in, sizeof in, "{" SSH_GOOD ",\"port\":%s}", beyond[i]);
        assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, in,
                       AT("port", "port must be a whole number between 1 and 65535."));
    }
    const struct {
        const char *said, *type;
    } others[] = {
        {"\"ssh\"", "string"}, {"\"22x\"", "string"}, {"\"nan\"", "string"}, {"{}", "object"}};
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        char in[256], wanted[128];
        (void)snprintf(in, sizeof in, "{" SSH_GOOD ",\"port\":%s}", others[i].said);
        (void)snprintf(wanted, sizeof wanted, "port: expected number, received %s", others[i].type);
        assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, in, AT("port", wanted));
    }
}

static void ssh_private_key_may_stand_only_in_a_probe(void **state)
{
    (void)state;
    const char *with_key = "{" SSH_GOOD ",\"privateKey\":\" -----BEGIN KEY-----\\nx \\n\"}";
    assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, with_key,
                   AT("privateKey", NO_INLINE_KEY));
    assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_PERSIST, with_key,
                   AT("privateKey", NO_INLINE_KEY));
    assert_normalises(BERTH_DRIVER_SSH, BERTH_CONFIG_PROBE, with_key,
                      "{\"host\":\"h\",\"port\":22,\"username\":\"u\","
                      "\"remoteWorkspacePath\":\"/w\",\"privateKey\":\"-----BEGIN KEY-----\\nx\","
                      "\"privateKeySecretRef\":null,\"knownHosts\":null,"
                      "\"strictHostKeyChecking\":true}");
}

/* A form sends an empty field as "", which is not a key. The stored form is null. */
static void ssh_blank_private_key(void **state)
{
    (void)state;
    const char *blank = "{" SSH_GOOD ",\"privateKey\":\" \\n\"}";
    assert_normalises(BERTH_DRIVER_SSH, BERTH_CONFIG_PROBE, blank, SSH_FULL("22"));
    assert_normalises(BERTH_DRIVER_SSH, BERTH_CONFIG_PERSIST, blank, SSH_FULL("22"));
    assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, blank, AT("privateKey", NO_INLINE_KEY));
    for (int i = 0; i < USES; i++)
        assert_normalises(BERTH_DRIVER_SSH, all_uses[i], "{" SSH_GOOD ",\"privateKey\":null}",
                          SSH_FULL("22"));
    assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_PROBE, "{" SSH_GOOD ",\"privateKey\":7}",
                   AT("privateKey", "privateKey: expected string, received number"));
}

static void ssh_secret_ref_has_a_version(void **state)
{
    (void)state;
#define REF(more)                                                                                  \
    "{" SSH_GOOD ",\"privateKeySecretRef\":{\"type\":\"secret_ref\",\"secretId\":\"" SECRET_ID     \
    "\"" more "}}"
    const struct {
        const char *said, *kept;
    } refs[] = {{REF(""), "\"latest\""},
                {REF(",\"version\":\"latest\""), "\"latest\""},
                {REF(",\"version\":1"), "1"},
                {REF(",\"version\":412"), "412"}};
    for (unsigned i = 0; i < sizeof refs / sizeof refs[0]; i++) {
        char wanted[512];
        (void)snprintf(wanted, sizeof wanted,
                       "{" SSH_GOOD ",\"port\":22,\"privateKey\":null,\"privateKeySecretRef\":"
                       "{\"type\":\"secret_ref\",\"secretId\":\"" SECRET_ID "\",\"version\":%s},"
                       "\"knownHosts\":null,\"strictHostKeyChecking\":true}",
                       refs[i].kept);
        assert_normalises(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, refs[i].said, wanted);
    }
    const char *const wrong[] = {REF(",\"version\":0"),          REF(",\"version\":-1"),
                                 REF(",\"version\":1.5"),        REF(",\"version\":\"1\""),
                                 REF(",\"version\":\"Latest\""), REF(",\"version\":null")};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, wrong[i],
                       AT("privateKeySecretRef.version",
                          "privateKeySecretRef.version must be \"latest\" or a positive integer."));
    assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, REF(",\"note\":1"),
                   AT("note", "Unrecognized key in config: privateKeySecretRef.note"));
#undef REF
}

static void ssh_secret_ref_has_a_form(void **state)
{
    (void)state;
    const char *const wrong[] = {
        "\"" SECRET_ID "\"",
        "[]",
        "{}",
        "false",
        "{\"secretId\":\"" SECRET_ID "\"}",
        "{\"type\":\"secret\",\"secretId\":\"" SECRET_ID "\"}",
        "{\"type\":\"secret_ref\"}",
        "{\"type\":\"secret_ref\",\"secretId\":\"\"}",
        "{\"type\":\"secret_ref\",\"secretId\":\"not-a-uuid\"}",
        "{\"type\":\"secret_ref\",\"secretId\":12}",
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char in[512];
        (void)snprintf(in, sizeof in, "{" SSH_GOOD ",\"privateKeySecretRef\":%s}", wrong[i]);
        assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, in,
                       AT("privateKeySecretRef", "privateKeySecretRef must be null or "
                                                 "{\"type\":\"secret_ref\",\"secretId\":<uuid>}."));
    }
}

static void ssh_types_of_the_rest(void **state)
{
    (void)state;
    assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, "{" SSH_GOOD ",\"knownHosts\":[]}",
                   AT("knownHosts", "knownHosts: expected string, received array"));
    const struct {
        const char *said, *type;
    } flags[] = {{"\"true\"", "string"}, {"1", "number"}, {"null", "null"}, {"{}", "object"}};
    for (unsigned i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        char in[256], wanted[128];
        (void)snprintf(in, sizeof in, "{" SSH_GOOD ",\"strictHostKeyChecking\":%s}", flags[i].said);
        (void)snprintf(wanted, sizeof wanted,
                       "strictHostKeyChecking: expected boolean, received %s", flags[i].type);
        assert_refuses(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, in,
                       AT("strictHostKeyChecking", wanted));
    }
}

static void ssh_refuses_unknown_keys(void **state)
{
    (void)state;
    for (int i = 0; i < USES; i++)
        assert_refuses(BERTH_DRIVER_SSH, all_uses[i],
                       "{" SSH_GOOD ",\"hostname\":\"h\",\"Port\":22}",
                       AT("hostname", "Unrecognized key in config: hostname"),
                       AT("Port", "Unrecognized key in config: Port"));
}

static void ssh_collects_all_faults_in_order(void **state)
{
    (void)state;
    assert_refuses(
        BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA,
        "{\"extra\":1,\"strictHostKeyChecking\":0,\"knownHosts\":3,"
        "\"privateKeySecretRef\":1,\"privateKey\":\"k\","
        "\"remoteWorkspacePath\":\"w\",\"username\":\"\",\"port\":0}",
        AT("host", "SSH environments require a host."),
        AT("port", "port must be a whole number between 1 and 65535."),
        AT("username", "SSH environments require a username."),
        AT("remoteWorkspacePath", "SSH remote workspace path must be absolute."),
        AT("privateKey", NO_INLINE_KEY),
        AT("privateKeySecretRef", "privateKeySecretRef must be null or "
                                  "{\"type\":\"secret_ref\",\"secretId\":<uuid>}."),
        AT("knownHosts", "knownHosts: expected string, received number"),
        AT("strictHostKeyChecking", "strictHostKeyChecking: expected boolean, received number"),
        AT("extra", "Unrecognized key in config: extra"));
}

/* --- sandbox: fake --- */

#define FAKE_DEFAULT "{\"provider\":\"fake\",\"image\":\"ubuntu:24.04\",\"reuseLease\":false}"

static void sandbox_without_a_provider_is_fake(void **state)
{
    (void)state;
    const char *const fakes[] = {"{}", "{\"provider\":\"\"}", "{\"provider\":null}",
                                 "{\"provider\":7}", "{\"provider\":\"fake\"}"};
    for (unsigned i = 0; i < sizeof fakes / sizeof fakes[0]; i++) {
        assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, fakes[i], FAKE_DEFAULT);
        assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_PROBE, fakes[i], FAKE_DEFAULT);
        assert_denied(BERTH_DRIVER_SANDBOX, fakes[i], BERTH_E_UNPROCESSABLE,
                      "Built-in fake sandbox environments are reserved for internal probes and "
                      "cannot be saved.");
    }
}

static void fake_fields(void **state)
{
    (void)state;
    assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA,
                      "{\"provider\":\"fake\",\"image\":\" debian:12 \",\"reuseLease\":true}",
                      "{\"provider\":\"fake\",\"image\":\"debian:12\",\"reuseLease\":true}");
    const char *const none[] = {"\"\"", "\"  \"", "null", "4"};
    for (unsigned i = 0; i < sizeof none / sizeof none[0]; i++) {
        char in[128];
        (void)snprintf(in, sizeof in, "{\"provider\":\"fake\",\"image\":%s}", none[i]);
        assert_refuses(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, in,
                       AT("image", "Fake sandbox environments require an image."));
    }
    assert_refuses(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, "{\"reuseLease\":\"yes\"}",
                   AT("reuseLease", "reuseLease: expected boolean, received string"));
}

static void fake_refuses_unknown_keys(void **state)
{
    (void)state;
    /* timeoutMs belongs to other providers. Faults come before the refusal to save. */
    for (int i = 0; i < USES; i++)
        assert_refuses(BERTH_DRIVER_SANDBOX, all_uses[i],
                       "{\"image\":\"\",\"reuseLease\":1,\"timeoutMs\":5,\"region\":\"eu\"}",
                       AT("image", "Fake sandbox environments require an image."),
                       AT("reuseLease", "reuseLease: expected boolean, received number"),
                       AT("timeoutMs", "Unrecognized key in config: timeoutMs"),
                       AT("region", "Unrecognized key in config: region"));
}

/* --- sandbox: any other provider --- */

static void provider_keeps_unknown_keys(void **state)
{
    (void)state;
    assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA,
                      "{\"provider\":\" e2b \",\"template\":\" x \",\"nested\":{\"a\":[1,null]},"
                      "\"image\":\"\"}",
                      "{\"provider\":\"e2b\",\"template\":\" x \",\"nested\":{\"a\":[1,null]},"
                      "\"image\":\"\",\"reuseLease\":false}");
    assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_PROBE,
                      "{\"provider\":\"e2b\",\"reuseLease\":true,\"apiKey\":\"" SECRET_ID "\"}",
                      "{\"provider\":\"e2b\",\"reuseLease\":true,\"apiKey\":\"" SECRET_ID "\"}");
}

static void provider_keys_have_a_shape(void **state)
{
    (void)state;
    const char *const good[] = {"a", "0", "e2b", "acme.cloud-2_x", "9-."};
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        char in[128], wanted[128];
        (void)snprintf(in, sizeof in, "{\"provider\":\"%s\"}", good[i]);
        (void)snprintf(wanted, sizeof wanted, "{\"provider\":\"%s\",\"reuseLease\":false}",
                       good[i]);
        assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, in, wanted);
    }
    const char *const bad[] = {"E2B", "Fake", "-a", ".a", "_a", "a b", "a/b", "a:b", "caf\xc3\xa9"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char in[128];
        (void)snprintf(in, sizeof in, "{\"provider\":\"%s\"}", bad[i]);
        for (int k = 0; k < USES; k++)
            assert_refuses(BERTH_DRIVER_SANDBOX, all_uses[k], in,
                           AT("provider", "Sandbox provider key" KEY_SHAPE));
    }
    assert_refuses(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, "{\"provider\":\" \\t\"}",
                   AT("provider", "Sandbox provider is required."));
}

static void provider_timeout_is_coerced_and_limited(void **state)
{
    (void)state;
    const struct {
        const char *said, *kept;
    } good[] = {{"1", "1"}, {"86400000", "86400000"}, {"\"5000\"", "5000"}, {"300.0", "300"}};
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        char in[128], wanted[128];
        (void)snprintf(in, sizeof in, "{\"provider\":\"p\",\"timeoutMs\":%s}", good[i].said);
        (void)snprintf(wanted, sizeof wanted,
                       "{\"provider\":\"p\",\"timeoutMs\":%s,\"reuseLease\":false}", good[i].kept);
        assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, in, wanted);
    }
    const char *const bad[] = {"0", "-5", "86400001", "1.5", "null", "\"0\""};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char in[128];
        (void)snprintf(in, sizeof in, "{\"provider\":\"p\",\"timeoutMs\":%s}", bad[i]);
        assert_refuses(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, in,
                       AT("timeoutMs", "timeoutMs must be a whole number between 1 and 86400000."));
    }
    assert_refuses(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA,
                   "{\"provider\":\"p\",\"timeoutMs\":\"soon\"}",
                   AT("timeoutMs", "timeoutMs: expected number, received string"));
}

static void provider_collects_all_faults_in_order(void **state)
{
    (void)state;
    assert_refuses(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA,
                   "{\"reuseLease\":\"no\",\"timeoutMs\":0,\"provider\":\"No\",\"x\":1}",
                   AT("provider", "Sandbox provider key" KEY_SHAPE),
                   AT("timeoutMs", "timeoutMs must be a whole number between 1 and 86400000."),
                   AT("reuseLease", "reuseLease: expected boolean, received string"));
}

static void saving_asks_the_provider(void **state)
{
    (void)state;
    const char *plain = "{\"provider\":\"picky\",\"zone\":\"a\"}";
    const char *kept = "{\"provider\":\"picky\",\"zone\":\"a\",\"reuseLease\":false}";
    asked = 0;
    assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, plain, kept);
    assert_int_equal(asked, 0);
    assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_PERSIST, plain, kept);
    assert_int_equal(asked, 1);
    /* What it makes of the config is what is stored. */
    assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_PERSIST,
                      "{\"provider\":\"picky\",\"mood\":\"good\"}",
                      "{\"provider\":\"picky\",\"region\":\"eu\",\"reuseLease\":true}");
    /* One without an opinion takes all. */
    assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_PERSIST, "{\"provider\":\"silent\"}",
                      "{\"provider\":\"silent\",\"reuseLease\":false}");
}

static void the_provider_refuses(void **state)
{
    (void)state;
    assert_refuses(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_PERSIST,
                   "{\"provider\":\"picky\",\"mood\":\"bad\"}", AT("mood", "No such mood."),
                   AT("region", "No such region."));
    assert_denied(BERTH_DRIVER_SANDBOX, "{\"provider\":\"picky\",\"mood\":\"away\"}",
                  BERTH_E_UNAVAILABLE, "The provider is away.");
    /* It is not bothered with what is wrong in form. */
    asked = 0;
    assert_refuses(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_PERSIST,
                   "{\"provider\":\"picky\",\"mood\":\"bad\",\"timeoutMs\":0}",
                   AT("timeoutMs", "timeoutMs must be a whole number between 1 and 86400000."));
    assert_int_equal(asked, 0);
}

/* Reference 4.3, 6: stored is {provider, ...normalizedConfig}. Without its provider, the row would
 * read as the fake one. */
static void the_provider_stays_in_what_it_normalised(void **state)
{
    (void)state;
    assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_PERSIST,
                      "{\"provider\":\"picky\",\"mood\":\"bare\"}",
                      "{\"provider\":\"picky\",\"region\":\"eu\",\"reuseLease\":false}");
}

static void saving_wants_a_known_provider(void **state)
{
    (void)state;
    assert_denied(BERTH_DRIVER_SANDBOX, "{\"provider\":\"daytona\"}", BERTH_E_UNPROCESSABLE,
                  "Sandbox provider config validation requires a running plugin worker manager.");
}

/* --- plugin --- */

static void plugin_fields(void **state)
{
    (void)state;
    const enum berth_config_use uses[] = {BERTH_CONFIG_SCHEMA, BERTH_CONFIG_PROBE};
    for (int i = 0; i < 2; i++) {
        assert_normalises(BERTH_DRIVER_PLUGIN, uses[i],
                          "{\"pluginKey\":\"acme.vm\",\"driverKey\":\"big-vm\"}",
                          "{\"pluginKey\":\"acme.vm\",\"driverKey\":\"big-vm\","
                          "\"driverConfig\":{}}");
        assert_normalises(BERTH_DRIVER_PLUGIN, uses[i],
                          "{\"pluginKey\":\"Any Text\",\"driverKey\":\"0\","
                          "\"driverConfig\":{\"a\":{\"b\":[1]},\"c\":\" \"}}",
                          "{\"pluginKey\":\"Any Text\",\"driverKey\":\"0\","
                          "\"driverConfig\":{\"a\":{\"b\":[1]},\"c\":\" \"}}");
    }
}

static void plugin_faults(void **state)
{
    (void)state;
    assert_refuses(BERTH_DRIVER_PLUGIN, BERTH_CONFIG_SCHEMA, "{}",
                   AT("pluginKey", "Plugin environments require a plugin key."),
                   AT("driverKey", "Plugin environments require a driver key."));
    assert_refuses(BERTH_DRIVER_PLUGIN, BERTH_CONFIG_SCHEMA,
                   "{\"pluginKey\":\"\",\"driverKey\":\"\"}",
                   AT("pluginKey", "Plugin environments require a plugin key."),
                   AT("driverKey", "Plugin environments require a driver key."));
    const char *const bad[] = {"Vm", "-vm", "a b", ".x", "a/b"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char in[128];
        (void)snprintf(in, sizeof in, "{\"pluginKey\":\"p\",\"driverKey\":\"%s\"}", bad[i]);
        assert_refuses(BERTH_DRIVER_PLUGIN, BERTH_CONFIG_SCHEMA, in,
                       AT("driverKey", "Environment driver key" KEY_SHAPE));
    }
    const struct {
        const char *said, *type;
    } inner[] = {{"[]", "array"}, {"null", "null"}, {"\"x\"", "string"}, {"1", "number"}};
    for (unsigned i = 0; i < sizeof inner / sizeof inner[0]; i++) {
        char in[128], wanted[128];
        (void)snprintf(in, sizeof in,
                       "{\"pluginKey\":\"p\",\"driverKey\":\"d\",\"driverConfig\":%s}",
                       inner[i].said);
        (void)snprintf(wanted, sizeof wanted, "driverConfig: expected object, received %s",
                       inner[i].type);
        assert_refuses(BERTH_DRIVER_PLUGIN, BERTH_CONFIG_SCHEMA, in, AT("driverConfig", wanted));
    }
}

static void plugin_refuses_unknown_keys(void **state)
{
    (void)state;
    for (int i = 0; i < USES; i++)
        assert_refuses(BERTH_DRIVER_PLUGIN, all_uses[i],
                       "{\"more\":1,\"driverConfig\":0,\"driverKey\":\"D\",\"pluginKey\":3}",
                       AT("pluginKey", "Plugin environments require a plugin key."),
                       AT("driverKey", "Environment driver key" KEY_SHAPE),
                       AT("driverConfig", "driverConfig: expected object, received number"),
                       AT("more", "Unrecognized key in config: more"));
}

static void plugin_needs_a_worker_manager_to_be_saved(void **state)
{
    (void)state;
    assert_denied(BERTH_DRIVER_PLUGIN, "{\"pluginKey\":\"p\",\"driverKey\":\"d\"}",
                  BERTH_E_UNPROCESSABLE,
                  "Plugin environment config validation requires a running plugin worker manager.");
}

static void a_refusal_without_a_reason_has_one_text(void **state)
{
    (void)state;
    assert_denied(BERTH_DRIVER_SANDBOX, "{\"provider\":\"picky\",\"mood\":\"silent\"}",
                  BERTH_E_UNPROCESSABLE, "Invalid environment config.");
}

static void drivers_are_found_by_name(void **state)
{
    (void)state;
    struct berth_error err;
    enum berth_environment_driver driver;
    assert_int_equal(berth_config_driver("plugin", &driver, &err), BERTH_OK);
    assert_int_equal(driver, BERTH_DRIVER_PLUGIN);
    assert_int_equal(berth_config_driver("Local", &driver, &err), BERTH_E_UNPROCESSABLE);
    assert_string_equal(err.message, "Unsupported environment driver \"Local\".");
}

/* --- normalised once, normalised for ever --- */

static void a_normalised_config_stays_as_it_is(void **state)
{
    (void)state;
    assert_normalises(BERTH_DRIVER_SSH, BERTH_CONFIG_SCHEMA, SSH_FULL("22"), SSH_FULL("22"));
    assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, FAKE_DEFAULT, FAKE_DEFAULT);
    const char *p = "{\"provider\":\"p\",\"timeoutMs\":3,\"reuseLease\":true,\"x\":1}";
    assert_normalises(BERTH_DRIVER_SANDBOX, BERTH_CONFIG_SCHEMA, p, p);
}

/* --- the fingerprint --- */

static const char *fingerprint(struct berth_arena *arena, enum berth_environment_driver driver,
                               const char *config)
{
    struct berth_issues issues = {.arena = arena};
    struct berth_error err = {0};
    auto_json *in = parse_json(config);
    auto_json *out = NULL;
    assert_ok_at(
        berth_config_normalise(registry, driver, in, BERTH_CONFIG_SCHEMA, &issues, &out, &err),
        &err, config, __FILE__, __LINE__);
    auto_free char *canonical = berth_json_canonical(out);
    const char *answer = NULL;
    assert_ok_at(berth_config_fingerprint(arena, driver, canonical, &answer, &err), &err, config,
                 __FILE__, __LINE__);
    assert_int_equal(strlen(answer), 64);
    assert_int_equal(strspn(answer, "0123456789abcdef"), 64);
    return answer;
}

static void the_fingerprint_tells_configs_apart(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    const char *one = fingerprint(&arena, BERTH_DRIVER_SANDBOX,
                                  "{\"provider\":\"p\",\"a\":1,\"b\":{\"c\":1,\"d\":2}}");
    assert_string_equal(one, fingerprint(&arena, BERTH_DRIVER_SANDBOX,
                                         "{\"b\":{\"d\":2,\"c\":1},\"provider\":\"p\",\"a\":1}"));
    /* What the default says anyway makes no difference. */
    assert_string_equal(one, fingerprint(&arena, BERTH_DRIVER_SANDBOX,
                                         "{\"provider\":\" p\",\"a\":1,\"reuseLease\":false,"
                                         "\"b\":{\"c\":1,\"d\":2}}"));
    const char *const others[] = {
        "{\"provider\":\"p\",\"a\":2,\"b\":{\"c\":1,\"d\":2}}",
        "{\"provider\":\"p\",\"a\":\"1\",\"b\":{\"c\":1,\"d\":2}}",
        "{\"provider\":\"p\",\"a\":1,\"b\":{\"c\":2,\"d\":1}}",
        "{\"provider\":\"q\",\"a\":1,\"b\":{\"c\":1,\"d\":2}}",
        "{\"provider\":\"p\",\"a\":1,\"b\":{\"c\":1,\"d\":2},\"e\":null}",
        "{\"provider\":\"p\",\"a\":1,\"b\":{\"c\":1,\"d\":2},\"reuseLease\":true}",
    };
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_string_not_equal(one, fingerprint(&arena, BERTH_DRIVER_SANDBOX, others[i]));
}

static void the_fingerprint_tells_drivers_apart(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error err;
    const char *answers[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(berth_config_fingerprint(&arena, (enum berth_environment_driver)i, "{}",
                                                  &answers[i], &err),
                         BERTH_OK);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(answers[i], answers[k]);
    }
    /* Rows hold it, so it may not change from one release to the next: sha256("local\n{}"). */
    assert_string_equal(answers[BERTH_DRIVER_LOCAL], LOCAL_EMPTY_SHA256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_takes_any_object_as_it_is),
        cmocka_unit_test(what_is_no_object_counts_as_an_empty_one),
        cmocka_unit_test(ssh_has_defaults),
        cmocka_unit_test(ssh_keeps_what_is_said),
        cmocka_unit_test(ssh_trims_texts),
        cmocka_unit_test(ssh_requires_host_username_and_path),
        cmocka_unit_test(ssh_refuses_what_reads_as_an_option),
        cmocka_unit_test(ssh_port_is_coerced),
        cmocka_unit_test(ssh_port_has_limits),
        cmocka_unit_test(ssh_private_key_may_stand_only_in_a_probe),
        cmocka_unit_test(ssh_blank_private_key),
        cmocka_unit_test(ssh_secret_ref_has_a_version),
        cmocka_unit_test(ssh_secret_ref_has_a_form),
        cmocka_unit_test(ssh_types_of_the_rest),
        cmocka_unit_test(ssh_refuses_unknown_keys),
        cmocka_unit_test(ssh_collects_all_faults_in_order),
        cmocka_unit_test(sandbox_without_a_provider_is_fake),
        cmocka_unit_test(fake_fields),
        cmocka_unit_test(fake_refuses_unknown_keys),
        cmocka_unit_test(provider_keeps_unknown_keys),
        cmocka_unit_test(provider_keys_have_a_shape),
        cmocka_unit_test(provider_timeout_is_coerced_and_limited),
        cmocka_unit_test(provider_collects_all_faults_in_order),
        cmocka_unit_test(saving_asks_the_provider),
        cmocka_unit_test(the_provider_refuses),
        cmocka_unit_test(the_provider_stays_in_what_it_normalised),
        cmocka_unit_test(saving_wants_a_known_provider),
        cmocka_unit_test(plugin_fields),
        cmocka_unit_test(plugin_faults),
        cmocka_unit_test(plugin_refuses_unknown_keys),
        cmocka_unit_test(plugin_needs_a_worker_manager_to_be_saved),
        cmocka_unit_test(a_refusal_without_a_reason_has_one_text),
        cmocka_unit_test(drivers_are_found_by_name),
        cmocka_unit_test(a_normalised_config_stays_as_it_is),
        cmocka_unit_test(the_fingerprint_tells_configs_apart),
        cmocka_unit_test(the_fingerprint_tells_drivers_apart),
    };
    return cmocka_run_group_tests(tests, make_registry, drop_registry);
}
