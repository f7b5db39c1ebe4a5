package manifest

import (
	"fmt"
	"testing"
)

// H2: what printf prints by mistake is found without the value, and nothing else is.
//
//nolint:staticcheck // the mistakes are what is tested
func TestMisprint(t *testing.T) {
	printf := fmt.Sprintf // vet would find the mistakes, too
	for text, want := range map[string]string{
		printf("%f", int64(9200)):                  "%!f(…)",
		printf("%d", 8080.0):                       "%!d(…)",
		printf("%d", "secret"):                     "%!d(…)",
		printf("%d", nil):                          "%!d(…)",
		printf("%d", map[string]any{"a": "b"}):     "map[a:%!d(…)",
		printf("%s", 1):                            "%!s(…)",
		printf("%s", true):                         "%!s(…)",
		printf("%d", []any{"secret"}):              "[%!d(…)",
		printf("a", "secret"):                      "a%!(EXTRA…)",
		printf("a%"):                               "a%!(NOVERB…)",
		printf("%*d", "secret", 1):                 "%!(BADWIDTH…)",
		printf("%[5]d", 1):                         "%!d(…)",
		"50%! (great)":                             "",
		"date +%!s":                                "",
		"%!s(x)":                                   "",
		"{{ .Values.a }} 100%\n%!":                 "",
		printf("%v %d %.0f %s", "a", 1, 2.0, "%!"): "",
	} {
		line, mistake := Misprint("a: b\n" + text)
		if want == "" {
			if line != 0 {
				t.Errorf("%s: %q", text, mistake)
			}
			continue
		}
		if line != 2 || want[len(want)-len(mistake):] != mistake {
			t.Errorf("%s: line %d, %q, want %q", text, line, mistake, want)
		}
	}
}

// J12: the first file is named, and how many more there are.
func TestMisprints(t *testing.T) {
	files := map[string]string{"b.yaml": "a\n%!d(float64=1)", "c.yaml": "%!f(<nil>)", "a.yaml": "100%"}
	const want = `b.yaml prints "%!d(…)" in line 2 of its output: printf got a value that does not fit its verb`
	if got := Misprints(files); got != want+"; and 1 more" {
		t.Errorf("got %s", got)
	}
	delete(files, "c.yaml")
	if got := Misprints(files); got != want {
		t.Errorf("got %s", got)
	}
}
