package hooks

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readDocs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The contexts that docs/hooks.md shows are those of the golden files, all of them.
func TestDocsShowEveryContext(t *testing.T) {
	shown := map[string]string{}
	for _, found := range regexp.MustCompile("(?s)<!-- context: ([a-z0-9-]+) -->\n```json\n(.*?)```").FindAllStringSubmatch(readDocs(t), -1) {
		shown[found[1]] = found[2]
	}
	goldens, err := filepath.Glob("testdata/contexts/*.json")
	if err != nil || len(goldens) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range goldens {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := compacted(t, shown[name]), compacted(t, string(golden)); got != want {
			t.Errorf("%s: docs/hooks.md shows\n%s\nthe golden file has\n%s", name, got, want)
		}
		delete(shown, name)
	}
	for name := range shown {
		t.Errorf("docs/hooks.md shows %s, which no golden file has", name)
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
