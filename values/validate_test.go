package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// D38
func TestViolationsNameEverythingButSecrets(t *testing.T) {
	schema := `
type: object
required: [name, other]
properties:
  name: {type: string}
  other: {type: string}
  adminPassword: {type: string, minLength: 100}
  tls: {type: object, properties: {certs: {type: object, additionalProperties: {type: string, pattern: '^-'}}}}
  a.b: {type: object, properties: {"odd name": {type: array, items: {type: integer, maximum: 3}}}}
  long: {type: string, maxLength: 3}
  pem: {type: string, maxLength: 3}
`
	values := `
adminPassword: hunter2
tls: {certs: {ca: hunter3}}
a.b: {odd name: [1, 7]}
long: ` + "'" + longText() + "'" + `
pem: "-----BEGIN KEY"
`
	got := check(t, schema, values)
	want := []string{
		"m.adminPassword: must have at least 100 characters",
		`m.long: must have at most 3 characters`,
		"m.name: is required",
		"m.other: is required",
		"m.pem: must have at most 3 characters",
		"m.tls.certs.ca: must match the pattern ^-",
		`m["a.b"]["odd name"][1]: must be at most 3, is 7`,
	}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

func longText() string {
	text := make([]byte, 64+1)
	for i := range text {
		text[i] = 'x'
	}
	return string(text)
}

func TestLooksSecret(t *testing.T) {
	for _, key := range []string{"password", "adminPassword", "PASSWD", "secret", "clientSecret", "token", "apiKey", "ssh_key", "tls.crt-cert", "credentials", "AUTH", "privateKey", "dsn"} {
		if !looksSecret(key) {
			t.Errorf("%s is shown", key)
		}
	}
	for _, key := range []string{"name", "replicas", "host", "size", "class", "image", "m"} {
		if looksSecret(key) {
			t.Errorf("%s is hidden", key)
		}
	}
	got := check(t, "{properties: {auth: {type: object, properties: {users: {type: array, items: {maxLength: 1}}}}}}", "{auth: {users: [hunter2]}}")
	if len(got) != 1 || strings.Contains(got[0], "hunter2") {
		t.Errorf("got %q", got)
	}
}

// D38, J9: nothing of a secret is shown, whichever keyword it offends, not even inside of alternatives; and the
// public text of an error, wrapped and joined, has no values at all.
func TestNoKeywordTellsSecrets(t *testing.T) {
	for _, schema := range []string{
		"{enum: [a]}", "{const: a}", "{maxLength: 1}", "{minLength: 99}", "{pattern: '^x$'}", "{format: date-time}", "{type: integer}", "{not: {type: string}}",
		"{anyOf: [{enum: [a]}, {maxLength: 1}]}", "{oneOf: [{type: string}, {minLength: 1}]}", "{allOf: [{format: ipv4}, {const: 1}]}", "false",
		"{if: {type: string}, then: {maxLength: 1}}", "{nullable: true, type: string, enum: [a]}",
	} {
		wrong := func(key string) error {
			return compiledSchema(t, yamlTree(t, "{properties: {"+key+": "+schema+"}}")).validate("m", map[string]any{key: "hunter2, is hunter3"}, secretPath)
		}
		if got := strings.Join(violations(t, wrong("password")), " "); got == "" || strings.Contains(got, "hunter") {
			t.Errorf("%s: %q", schema, got)
		}
		got := Public(errors.Join(errors.New("before"), fmt.Errorf("key m: %w", wrong("open"))))
		if strings.Contains(got, "hunter") || !strings.HasPrefix(got, "before\nkey m: ") || !strings.Contains(got, "m.open: ") {
			t.Errorf("%s: %s", schema, got)
		}
	}
}

// Violations are sorted and told once, however often the schema says the same.
func TestViolationsAreToldOnce(t *testing.T) {
	got := check(t, "{allOf: [{required: [b, a]}, {required: [a]}, {properties: {c: {type: integer}}}, {properties: {c: {type: integer}}}]}", "{c: x}")
	want := []string{"m.a: is required", "m.b: is required", "m.c: must be an integer, is a string"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestFormats(t *testing.T) {
	for name, tc := range map[string]struct{ good, bad []any }{
		"int32":    {[]any{int64(0), int64(1<<31 - 1), int64(-1 << 31), "text", 1.5}, []any{int64(1 << 31), int64(-1<<31 - 1), json.Number("9223372036854775808")}},
		"int64":    {[]any{int64(1<<63 - 1), nil}, []any{json.Number("9223372036854775808")}},
		"cidr":     {[]any{"10.0.0.0/8", "fd00::/64", int64(1)}, []any{"10.0.0.0", "10.0.0.0/33", ""}},
		"duration": {[]any{"1h", "1.5s", "300ms", "PT1H", "P1D", "30d", "2 weeks", "1.5w", "-3d", "1h30m2d", int64(5)}, []any{"1", "1 year", "d", "30d soon", "", "3 d 1"}},
	} {
		check := formats()[name]
		for _, v := range tc.good {
			if !check(v) {
				t.Errorf("%s refuses %v", name, v)
			}
		}
		for _, v := range tc.bad {
			if check(v) {
				t.Errorf("%s accepts %v", name, v)
			}
		}
	}
}
