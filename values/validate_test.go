package values

import "testing"

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
	text := make([]byte, maxShown+1)
	for i := range text {
		text[i] = 'x'
	}
	return string(text)
}

func TestValidationErrorText(t *testing.T) {
	one := &ValidationError{Section: "m", Schema: "s.yaml", Violations: []Violation{{"m.a", "is required"}}}
	if got, want := one.Error(), "values of m do not fit s.yaml: m.a: is required"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	two := &ValidationError{Section: "m", Schema: "s.yaml", Violations: []Violation{{"m.a", "is required"}, {"m.b", "is required"}}}
	if got, want := two.Error(), "values of m do not fit s.yaml:\n  m.a: is required\n  m.b: is required"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
