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
