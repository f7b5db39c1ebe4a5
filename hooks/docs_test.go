package hooks

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

func readDocs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/hooks.md")
	must(t, err)
	return string(text)
}

// The contexts that docs/hooks.md shows are those of the golden files.
func TestDocsShowContexts(t *testing.T) {
	shown := map[string]string{}
	for _, found := range regexp.MustCompile("(?s)<!-- context: ([a-z0-9-]+) -->\n```json\n(.*?)```").FindAllStringSubmatch(readDocs(t), -1) {
		shown[found[1]] = found[2]
	}
	if len(shown) < 8 {
		t.Errorf("%d contexts", len(shown))
	}
	for name, context := range shown {
		golden, err := os.ReadFile("testdata/contexts/" + name + ".json")
		if got, want := compacted(t, context), compacted(t, string(golden)); err != nil || got != want {
			t.Errorf("%s: %v; docs/hooks.md shows\n%s\nthe golden file has\n%s", name, err, got, want)
		}
	}
}

func compacted(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(text)); err != nil && text != "" {
		t.Errorf("%v in %s", err, text)
	}
	return out.String()
}

// The examples of docs/hooks.md are accepted.
func TestDocsAreRight(t *testing.T) {
	docs := readDocs(t)
	configs := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(docs, -1)
	if len(configs) == 0 {
		t.Error("no configuration is shown")
	}
	for _, config := range configs {
		if _, err := ParseConfig(Module, []byte(config[1])); err != nil {
			t.Errorf("%v\n%s", err, config[1])
		}
	}
	metrics := regexp.MustCompile("(?s)<!-- metrics -->\n```json\n(.*?)```").FindStringSubmatch(docs)
	if metrics == nil {
		t.Fatal("no metrics are shown")
	}
	parsed, warnings, err := ParseMetrics([]byte(metrics[1]))
	if err != nil || warnings != nil || len(parsed) != strings.Count(metrics[1], "\n") {
		t.Errorf("%d metrics, %v", len(parsed), err)
	}
}
