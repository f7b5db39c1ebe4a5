package lint

import (
	"os"
	"strings"
	"testing"
)

// Names of metrics that are said to be other ones here are none of this operator, and those in
// their place are.
func TestRenamedMetrics(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	served := func(name string) bool { return strings.Contains(string(page), "\n| `addon_operator_"+name+"` |") }
	for old, now := range renamed() {
		if served(old) {
			t.Errorf("%s is served", old)
		}
		if now != "" && !served(now) {
			t.Errorf("%s is not served, and should stand for %s", now, old)
		}
	}
}
