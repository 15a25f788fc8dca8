/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/redact.c - secrets are hidden, and words without a secret are left alone. */
#include "base/redact.h"

#include "fixture.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/redact_text.h"
#include "base/utf8.h"

#define R BERTH_REDACTED

/* --- names --- */

static const struct {
    const char *name;
    bool secret;
} names[] = {
    /* every word of the table, in any case and anywhere */
    {"KEY", true},
    {"token", true},
    {"Secret", true},
    {"MY_SECRET_THING", true},
    {"PGPASSWORD", true},
    {"passwd", true},
    {"HTTP_AUTHORIZATION", true},
    {"Proxy-Authorization", true},
    {"SESSIONCOOKIE", true},
    {"cookies", true},
    /* key as a word, at the end of one, with humps, as a plural */
    {"API_KEY", true},
    {"api-key", true},
    {"apiKey", true},
    {"APIKey", true},
    {"apikey", true},
    {"APIKEYs", true},
    {"OPENAI_API_KEYS", true},
    {"X-Api-Key", true},
    {"sshkey", true},
    {"KEY2", true},
    {"AWS_ACCESS_KEY_ID", true},
    {"accesskeyid", true},
    {"privateKeyPem", true},
    /* only spelled so */
    {"MONKEY", false},
    {"Greasemonkeys", false},
    {"TURKEY", false},
    {"hotkey", false},
    {"KEYBOARD", false},
    {"keywords", false},
    {"KEYFILE", false},
    {"key-repeat", false},
    {"KEY_FILE", false},
    {"ssh-key-path", false},
    /* token, but not what makes or counts tokens */
    {"GITHUB_TOKEN", true},
    {"GITHUBTOKEN", true},
    {"accessToken", true},
    {"authtoken", true},
    {"my-token", true},
    {"API_TOKENS", true},
    {"_authToken", true},
    {"tokenizer", false},
    {"TOKENIZERS_PARALLELISM", false},
    {"detokenise", false},
    {"MAX_TOKENS", false},
    {"maxTokens", false},
    {"maxtokens", false},
    {"CLAUDE_CODE_MAX_OUTPUT_TOKENS", false},
    {"token-limit", false},
    /* what commands know beside those */
    {"bearer", true},
    {"credential", true},
    {"CREDENTIALS", true},
    {"jwt", true},
    {"private_key", true},
    {"connectionString", true},
    {"connection-string", true},
    {"DB_PASS", true},
    {"MYSQL_PWD", true},
    {"keypass", true},
    {"passphrase", true},
    {"PWD", false},
    {"OLDPWD", false},
    {"COMPASS", false},
    {"passthrough", false},
    {"password-stdin", false},
    {"PASSWORD_FILE", true},
    {"PATH", false},
    {"HOME", false},
    {"", false},
    {"1", false},
    {"_", false},
    {"\xc3\xa9\xff", false},
};

static void names_tell(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (berth_redact_is_secret((struct berth_span){names[i].name, strlen(names[i].name)}) !=
            names[i].secret)
            fail_msg("%s", names[i].name);
}

/* --- commands --- */

#define JWT "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"

static const struct {
    const char *argv[8];
    const char *expected;
} commands[] = {
    /* quoting */
    {{NULL}, ""},
    {{"ls", "-l", "/tmp/a_b@c%d+e=f:g,h.i-j"}, "ls -l /tmp/a_b@c%d+e=f:g,h.i-j"},
    {{"echo", "", "a b", "it's", "$HOME", "*"}, "echo '' 'a b' 'it'\\''s' '$HOME' '*'"},
    {{"echo", "gr\xc3\xbc\xc3\x9f", "two\nlines\t'\\"},
     "echo 'gr\xc3\xbc\xc3\x9f' $'two\\nlines\\t\\'\\\\'"},
    {{"echo", "\x1b[2J", "\xff", "\xc2\x9b"}, "echo $'\\x1b[2J' $'\\xff' $'\\xc2\\x9b'"},

    /* 1: Authorization */
    {{"curl", "-H", "Authorization: Bearer x1"}, "curl -H 'Authorization: " R "'"},
    {{"curl", "-H", "authorization:bearer x1"}, "curl -H authorization:" R},
    {{"curl", "-HAuthorization: Bearer x1"}, "curl '-HAuthorization: " R "'"},
    {{"curl", "-H", "Authorization: Basic eA==", "u"}, "curl -H 'Authorization: " R "' u"},
    {{"curl", "-H", "Authorization: x1 x2"}, "curl -H 'Authorization: " R "'"},
    {{"echo", "Authorization:", "Bearer", "x1", "y"}, "echo Authorization: " R " " R " y"},
    {{"echo", "say Authorization: Bearer x1"}, "echo 'say Authorization: " R "'"},
    {{"git", "-c", "http.extraheader=AUTHORIZATION: basic x1", "pull"},
     "git -c 'http.extraheader=AUTHORIZATION: " R "' pull"},

    /* 2: options, each of the table, as two words or one */
    {{"x", "--api-key", "v"}, "x --api-key " R},
    {{"x", "--api_key=v"}, "x --api_key=" R},
    {{"x", "-apikey", "v"}, "x -apikey " R},
    {{"x", "--access-token", "v"}, "x --access-token " R},
    {{"x", "--authtoken=v"}, "x --authtoken=" R},
    {{"x", "--token", "v", "w"}, "x --token " R " w"},
    {{"x", "--TOKEN", "v"}, "x --TOKEN " R},
    {{"x", "-token", "v"}, "x -token " R},
    {{"x", "--authorization", "v"}, "x --authorization " R},
    {{"x", "--authorization", "Bearer", "v", "w"}, "x --authorization " R " " R " w"},
    {{"x", "--bearer", "v"}, "x --bearer " R},
    {{"x", "--secret", "v"}, "x --secret " R},
    {{"x", "--passwd=v"}, "x --passwd=" R},
    {{"x", "--password", "v"}, "x --password " R},
    {{"x", "--credential", "v"}, "x --credential " R},
    {{"x", "--jwt", "v"}, "x --jwt " R},
    {{"x", "--private-key", "v"}, "x --private-key " R},
    {{"x", "--cookie", "a=b; c=d"}, "x --cookie " R},
    {{"x", "--connectionstring", "v"}, "x --connectionstring " R},
    {{"x", "--token", "a b"}, "x --token " R},
    {{"x", "--token=a b"}, "x --token=" R},
    {{"x", "--token=\"a b\""}, "x --token=" R},
    {{"x", "--my-token", "v"}, "x --my-token " R},
    {{"x", "--my-token=v"}, "x --my-token=" R},
    {{"x", "--tokenFor-me", "v"}, "x --tokenFor-me " R},
    {{"x", "--password", "-dash9"}, "x --password " R},
    {{"x", "--password", "--Dash"}, "x --password " R},
    {{"x", "--password", ""}, "x --password ''"},
    {{"x", "--password"}, "x --password"},
    {{"x", "--token", "--verbose", "w"}, "x --token --verbose w"},
    {{"x", "--token", "-v", "w"}, "x --token -v w"},
    {{"x", "--token", "--password=v", "w"}, "x --token --password=" R " w"},
    {{"x", "-storepass", "-keypass", "v"}, "x -storepass " R " " R},
    {{"x", "--password-stdin", "host"}, "x --password-stdin host"},
    {{"x", "--tokenizer", "bert"}, "x --tokenizer bert"},
    {{"x", "--max-tokens", "100"}, "x --max-tokens 100"},
    {{"x", "--key-repeat", "30"}, "x --key-repeat 30"},
    {{"java", "-Dapi.key=v", "-DMONKEY=v"}, "java -Dapi.key=" R " -DMONKEY=v"},

    /* 3: NAME=value */
    {{"env", "MY_TOKEN=v", "x"}, "env MY_TOKEN=" R " x"},
    {{"env", "api_key=v"}, "env api_key=" R},
    {{"env", "SECRET=v", "PASSWORD=v"}, "env SECRET=" R " PASSWORD=" R},
    {{"env", "PASSWD=v", "AUTHORIZATION=v", "JWT=v"},
     "env PASSWD=" R " AUTHORIZATION=" R " JWT=" R},
    {{"env", "API_KEY=a b"}, "env API_KEY=" R},
    {{"env", "API_KEY=a\nb"}, "env API_KEY=" R},
    {{"env", "API_KEY=\"x\""}, "env API_KEY=" R},
    {{"env", "API_KEY=", "x"}, "env API_KEY= x"},
    {{"x", "API_KEY = v w"}, "x 'API_KEY = " R "'"},
    {{"x", "API_KEY", "=", "v", "w"}, "x API_KEY = " R " w"},
    {{"docker", "-eAPI_KEY=v", "--build-arg=TOKEN=v"},
     "docker -eAPI_KEY=" R " --build-arg=TOKEN=" R},
    {{"env", "MONKEY=banana", "x"}, "env MONKEY=banana x"},
    {{"env", "=x", "API_KEY", "PATH=/bin:/usr/bin"}, "env =x API_KEY PATH=/bin:/usr/bin"},
    {{"env", "X=com.example.SomeVeryLongClassName"}, "env X=com.example.SomeVeryLongClassName"},
    {{"env", "X=sk-abcdefghijkl", "X=" JWT}, "env X=" R " X=" R},
    {{"env", "X=before ghp_abcdefghij0123456789"}, "env 'X=before " R "'"},
    {{"env", "DATABASE_URL=postgres://u:pw@h/db"}, "env DATABASE_URL=postgres://u:" R},
    {{"env", "CONFIG={\"apiKey\":\"v\",\"b\":1}"}, "env 'CONFIG={\"apiKey\":" R "'"},
    {{"env", "OPTIONS=--token v -x"}, "env 'OPTIONS=--token " R "'"},
    {{"x", "Server=h;Password=a b;Db=y"}, "x 'Server=h;Password=" R "'"},

    {{"x", "A=1\nAPI_KEY=a b\nC=d"}, "x $'A=1\\nAPI_KEY=" R "'"},

    /* 4 to 6: shapes */
    {{"x", "sk-abcdefghijklKey=v"}, "x " R},
    {{"x", "a.sk-abcdefghijklKey=v"}, "x a." R},
    {{"x", "sk-abcdefghijkl"}, "x " R},
    {{"x", "a:sk-abcdefghijkl,b"}, "x a:" R},
    {{"x", "sk-abcdefghijk"}, "x sk-abcdefghijk"},
    {{"x", "SK-abcdefghijkl"}, "x SK-abcdefghijkl"},
    {{"x", "task-abcdefghijkl"}, "x task-abcdefghijkl"},
    {{"x", "ghp_abcdefghij0123456789", "gho_abcdefghij0123456789"}, "x " R " " R},
    {{"x", "ghu_abcdefghij0123456789", "ghs_abcdefghij0123456789"}, "x " R " " R},
    {{"x", "ghr_abcdefghij0123456789", "GHP_abcdefghij0123456789"},
     "x " R " GHP_abcdefghij0123456789"},
    {{"x", "ghp_abcdefghij012345678"}, "x ghp_abcdefghij012345678"},
    {{"x", JWT}, "x " R},
    {{"x", "a=" JWT ",b"}, "x a=" R},
    {{"x", "a1b2c3d4e5f6g7h8.a1b2c3d4e5f6g7h8.a1b2c3d4e5f6g7h8"}, "x " R},
    {{"x", "com.example.SomeVeryLongClassName"}, "x com.example.SomeVeryLongClassName"},
    {{"x", "organisation.department.SomeVeryLongClassName.someMethod"},
     "x organisation.department.SomeVeryLongClassName.someMethod"},
    {{"x", "12345678.12345678.12345678", "eyJhbGciOi.js"},
     "x 12345678.12345678.12345678 eyJhbGciOi.js"},
    {{"x", "db-instance1.eu-west-1a.compute-9.example"},
     "x db-instance1.eu-west-1a.compute-9.example"},

    /* headers */
    {{"curl", "-H", "X-Api-Key: a b"}, "curl -H 'X-Api-Key: " R "'"},
    {{"curl", "-H", "X-Api-Key:v"}, "curl -H X-Api-Key:" R},
    {{"curl", "-H", "Cookie: a=b; c=d"}, "curl -H 'Cookie: " R "'"},
    {{"curl", "-H", "Accept: text/plain"}, "curl -H 'Accept: text/plain'"},
    {{"echo", "token:", "v", "w"}, "echo token: " R " w"},
    {{"docker", "-v", "/run/secrets:/x:ro"}, "docker -v /run/secrets:/x:ro"},

    /* URLs */
    {{"x", "https://user:pw@host/p"}, "x https://user:" R},
    {{"x", "postgres://u:p@ss:w@host:5432/db"}, "x postgres://u:" R},
    {{"x", "postgres://u:p/w@host/db"}, "x postgres://u:" R},
    {{"x", "https://user:pw-sk-abcdefghijkl@host"}, "x https://user:" R},
    {{"x", "'https://user:it's@host'"}, "x ''\\''https://user:" R "'"},
    {{"x", "redis://:pw@host"}, "x redis://:" R},
    {{"x", "https://token:pw@host/p"}, "x https://token:" R},
    {{"x", "https://0123456789abcdef0123:x@host"}, "x https://" R},
    {{"x", "https://0123456789abcdef0123@host"}, "x https://" R},
    {{"x", "ssh://git@host:22/p", "https://host:80/p@1"},
     "x ssh://git@host:22/p https://host:80/p@1"},
    {{"x", "http://h/?a=b&token=v&c=d#e"}, "x 'http://h/?a=b&token=" R "'"},
    {{"x", "http://[::1]:80/p@1"}, "x 'http://[::1]:80/p@1'"},
    {{"x", "nginx:1.25@sha256:ab"}, "x nginx:1.25@sha256:ab"},

    /* JSON, plain and inside of JSON */
    {{"x", "{\"apiKey\":\"v\",\"b\":\"c\"}"}, "x '{\"apiKey\":" R "'"},
    {{"x", "{\"token\" : \"a\\\"b\", \"b\": 1}"}, "x '{\"token\" : " R "'"},
    {{"x", "{\"token\":12,\"b\":1}"}, "x '{\"token\":" R "'"},
    {{"x", "{\"tokens\":[\"a\",{\"b\":\"]\"}],\"c\":1}"}, "x '{\"tokens\":" R "'"},
    {{"x", "{\"a\":\"{\\\"apiKey\\\":\\\"v\\\\\\\"w\\\"}\",\"b\":1}"},
     "x '{\"a\":\"{\\\"apiKey\\\":" R "'"},
    {{"x", "{\"Authorization\":\"Bearer v\"}"}, "x '{\"Authorization\":" R "'"},
    {{"x", "[\"--token\", \"a b\", \"c\"]"}, "x '[\"--token\", " R "'"},
    {{"x", "5\" {\"apiKey\":\" v\"}"}, "x '5\" {\"apiKey\":" R "'"},
    {{"x", "{\"monkey\":\"v\"}"}, "x '{\"monkey\":\"v\"}'"},

    /* scripts */
    {{"sh", "-c", "TOKEN=v curl h"}, "sh -c TOKEN=" R},
    {{"/bin/bash", "-lc", "API_KEY=\"a b\" x"}, "/bin/bash -lc API_KEY=" R},
    {{"sh", "-c", "K='x' TOKEN='a b' y"}, "sh -c 'K='\\''x'\\'' TOKEN=" R "'"},
    {{"sh", "-c", "TOKEN=a\"b c\"d\\ e x"}, "sh -c TOKEN=" R},
    {{"sh", "-c", "TOKEN=\"a\"'b c' x"}, "sh -c TOKEN=" R},
    {{"sh", "-c", "x --token \"a b\" --my-token v w"}, "sh -c 'x --token " R "'"},
    {{"sh", "-c", "x --token \\\n v --token --verbose w"}, "sh -c $'x --token \\\\\\n " R "'"},
    {{"sh", "-c", "curl -H \"Authorization: Bearer $T\" h"},
     "sh -c 'curl -H \"Authorization: " R "'"},
    {{"sh", "-c", "curl -H \"X-Api-Key: a b\" -H \"A: b\""}, "sh -c 'curl -H \"X-Api-Key: " R "'"},
    {{"sh", "-c", "it doesn't show TOKEN='a b' c"}, "sh -c 'it doesn'\\''t show TOKEN=" R "'"},
    {{"sh", "-c", "it doesn't show TOKEN=a'b c' d"}, "sh -c 'it doesn'\\''t show TOKEN=" R "'"},
    {{"sh", "-c", "x --token --verbose --password -v w"},
     "sh -c 'x --token --verbose --password -v w'"},
    {{"sh", "-c", "x password=\"two words\" y"}, "sh -c 'x password=" R "'"},
    {{"sh", "-c", "x password=\"two\\\" words\" y"}, "sh -c 'x password=" R "'"},
    {{"sh", "-c", "printf '%s' \"KEY='a\nb c\nd'\" >f"}, "sh -c 'printf '\\''%s'\\'' \"KEY=" R "'"},
    {{"psql", "-c", "TOKEN=a b"}, "psql -c TOKEN=" R},
    {{"sh", "-c", "echo token: password: v w"}, "sh -c 'echo token: " R "'"},
    {{"python", "-c", "os.environ[\"API_KEY\"] = \"v\"; f()"},
     "python -c 'os.environ[\"API_KEY\"] = " R "'"},
    {{"sh", "-c", "echo $MONKEY; monkey=1 x"}, "sh -c 'echo $MONKEY; monkey=1 x'"},
};

static void commands_show_no_secrets(void **state)
{
    (void)state;
    assert_true(sizeof commands / sizeof commands[0] >= 60);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        auto_arena arena = BERTH_ARENA_INIT;
        const char *shown = berth_redact_command(&arena, commands[i].argv);
        assert_string_equal(shown, commands[i].expected);
    }
}

/* --- any bytes --- */

static uint64_t chance_state;

/* The same row of numbers everywhere: a failure can be seen again. */
static unsigned chance(unsigned below)
{
    chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(chance_state >> 33) % below;
}

static const char *const pieces[] = {"token",
                                     "KEY",
                                     "--password",
                                     "Authorization",
                                     "Bearer ",
                                     ":",
                                     "=",
                                     "://",
                                     "@",
                                     "\"",
                                     "'",
                                     "\\",
                                     "\\\"",
                                     "`",
                                     "eyJ",
                                     ".",
                                     "sk-",
                                     "ghp_",
                                     " ",
                                     "\n",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     ",",
                                     ";",
                                     "&",
                                     "?",
                                     "-",
                                     "/",
                                     "abc123XYZ789",
                                     "\xc3",
                                     "\xa9"};

/* Bytes of any kind, and pieces that mean something, in any order. */
static const char *any_text(struct berth_arena *arena, unsigned pieces_max)
{
    auto_buf buf = BERTH_BUF_INIT(1 << 20);
    for (unsigned left = chance(pieces_max + 1); left; left--) {
        char byte = (char)(chance(255) + 1);
        if (chance(4))
            berth_buf_puts(&buf, pieces[chance(sizeof pieces / sizeof pieces[0])]);
        else
            berth_buf_append(&buf, &byte, 1);
    }
    return berth_arena_strdup(arena, berth_buf_str(&buf));
}

static void assert_showable(const char *text)
{
    assert_non_null(text);
    assert_true(berth_utf8_valid(text));
    for (; *text; text++)
        assert_true((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void any_bytes_do_no_harm(void **state)
{
    (void)state;
    chance_state = 20260801;
    for (int round = 0; round < 20000; round++) {
        auto_arena arena = BERTH_ARENA_INIT;
        const char *argv[6] = {chance(2) ? "sh" : "x", chance(2) ? "-c" : "y"};
        for (unsigned i = 2; i < 5; i++)
            argv[i] = any_text(&arena, 30);
        assert_showable(berth_redact_command(&arena, argv));
    }
}

/* --- planted secrets --- */

/* One or two words of a command, with the secret in place of %s. `apart`: the secret may contain
 * blanks, quotes and ends of lines. */
static const struct {
    const char *first, *second;
    bool apart;
} plants[] = {
    {"--token", "%s", true},
    {"--my-api-key", "%s", true},
    {"--password=%s", NULL, true},
    {"API_KEY=%s", NULL, true},
    {"GITHUB_TOKEN=\"%s\"", NULL, true},
    {"X-Api-Key: %s", NULL, true},
    {"Authorization: Bearer %s", NULL, true},
    {"{\"apiKey\":\"%s\",\"b\":1}", NULL, true},
    {"{\"a\":\"{\\\"password\\\":\\\"%s\\\"}\"}", NULL, true},
    {"https://user:%s@host/path", NULL, false},
    {"https://host/path?access_token=%s&b=c", NULL, true},
    {"sh", "TOKEN=%s x", true},
    {"export TOKEN='%s' && x", NULL, true},
    {"x --secret \"%s\" y", NULL, true},
    {"x --secret %s y", NULL, true},
    {"say Authorization: Bearer %s", NULL, true},
    {"curl -H \"X-Auth-Token: %s\" host", NULL, true},
    {"sk-%s", NULL, false},
    {"ghp_%s", NULL, false},
    {"eyJhbGciOiJIUzI1NiJ9.%s.c2lnbmF0dXJl", NULL, false},
};

static const char *with_secret(struct berth_arena *arena, const char *word, const char *secret)
{
    const char *at = word ? strstr(word, "%s") : NULL;
    if (!at)
        return word;
    return berth_arena_printf(arena, "%.*s%s%s", (int)(at - word), word, secret, at + 2);
}

static void fill_secret(char *secret, size_t len, bool apart)
{
    static const char bytes[] = "abcdefghijkmnopqrsuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    for (size_t i = 0; i < len; i++)
        secret[i] = bytes[chance(sizeof bytes - 1)];
    if (apart)
        secret[len / 2] = " \n\t\"'`\\{}[],;&"[chance(14)];
    secret[len] = '\0';
}

static void assert_hidden(const char *shown, const char *secret)
{
    char half[16] = {0};
    assert_non_null(shown);
    if (strstr(shown, secret))
        fail_msg("%s shows %s", shown, secret);
    for (int i = 0; i < 2; i++) { /* nor one half of a secret that is apart */
        memcpy(half, secret + (i ? 17 : 0), 15);
        if (strstr(shown, half))
            fail_msg("%s shows %s", shown, half);
    }
}

/* Hides a secret beside other words and, when `inside`, in the middle of a word. */
static void check_plant(unsigned which, bool inside)
{
    auto_arena arena = BERTH_ARENA_INIT;
    char secret[33];
    fill_secret(secret, 32, plants[which].apart && chance(2));
    const char *first = with_secret(&arena, plants[which].first, secret);
    const char *second = with_secret(&arena, plants[which].second, secret);
    if (inside)
        first =
            berth_arena_printf(&arena, "%s %s %s", any_text(&arena, 9), first, any_text(&arena, 9));
    const char *argv[] = {any_text(&arena, 9), first, second ? second : any_text(&arena, 9),
                          any_text(&arena, 9), NULL};
    assert_hidden(berth_redact_command(&arena, argv), secret);
}

static void planted_secrets_are_hidden(void **state)
{
    (void)state;
    chance_state = 8;
    for (unsigned round = 0; round < 20000; round++) {
        unsigned which = round % (sizeof plants / sizeof plants[0]);
        check_plant(which, !plants[which].second && chance(2));
    }
}

/* Quadratic time would be hours. Most patterns contain no secret, so that the search goes on to the
 * end of the text; each kind of secret is searched for on its own. */
static void long_texts_take_linear_time(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "token=",      "--token ",      "://a:x/", "token=\"",  "\\",
        "\"",          "eyJ.",          "a.",      "key: ",     "key:[",
        "k_e_y_",      "password",      "sk-",     "bearer ",   "'a",
        "token\\\n",   "://",           "@:",      "token: [{", "token ",
        "KEY\"\\\"",   "Cookie:;",      "=",       "KEYS",      "p_",
        "--token -v ", "--token\",-v ", "/token:", "token\" ",  "://a:x/ @ ",
        "://a@b/",     "://[:a/@",      "secre",   "gho_a",     "sk-abc."};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        auto_arena arena = BERTH_ARENA_INIT;
        auto_buf text = BERTH_BUF_INIT(1 << 21);
        while (text.len < (1 << 20))
            berth_buf_puts(&text, patterns[i]);
        const char *argv[] = {"sh", "-c", berth_buf_str(&text), berth_buf_str(&text), NULL};
        assert_non_null(berth_redact_command(&arena, argv));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_tell),
        cmocka_unit_test(commands_show_no_secrets),
        cmocka_unit_test(any_bytes_do_no_harm),
        cmocka_unit_test(planted_secrets_are_hidden),
        cmocka_unit_test(long_texts_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
