package actors_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"addon-operator/testkit"
)

// Each rule of the chapters on discovery, queues, the lifecycle and doing no harm has a
// script that names it in its first line.
func TestEveryRuleHasAScript(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	proven := map[string]bool{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(data), "\n")
		rules, _, found := strings.Cut(line, ":")
		if !found {
			t.Errorf("%s: its first line does not begin with what it proves and a colon: %s", path, line)
		}
		for _, rule := range rulesIn(rules) {
			proven[rule] = true
		}
	}
	for chapter, last := range map[string]int{"E": 15, "F": 18, "G": 18, "P": 1} {
		for n := 1; n <= last; n++ {
			if rule := fmt.Sprint(chapter, n); !proven[rule] {
				t.Errorf("no script names the rule %s in its first line", rule)
			}
		}
	}
}

var rulePattern = regexp.MustCompile(`\b([A-Z])(\d+)(?:\.\d+)?(?:–[A-Z](\d+))?`)

// rulesIn lists the rules that a text names: "G1–G3, F5" are four.
func rulesIn(text string) (rules []string) {
	for _, m := range rulePattern.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			last, _ = strconv.Atoi(m[3])
		}
		for n := first; n <= last; n++ {
			rules = append(rules, m[1]+strconv.Itoa(n))
		}
	}
	return rules
}

func TestRulesIn(t *testing.T) {
	if got := strings.Join(rulesIn("G1–G3, F5, seed 001, G5.4"), " "); got != "G1 G2 G3 F5 G5" {
		t.Errorf("got %s", got)
	}
}

// The random test is worth something only if its scripts do to the operator what they are
// meant to: it is killed, and module f causes loops and failures.
func TestRandomScriptsInjectFaults(t *testing.T) {
	drawn := map[string]int{}
	for seed := range uint64(2000) {
		for _, f := range testkit.NewRandom(seed + 1).Archive.Files {
			if f.Name != "script" {
				continue
			}
			for line := range strings.Lines(string(f.Data)) {
				drawn[strings.TrimSpace(line)]++
			}
		}
	}
	wanted := []string{
		"kill", "chance f", "settle f", "forbid Service", "object ConfigMap d/touched", "object ConfigMap d/unneeded", "slow-crds 10s", "refuse-crds f", "refuse g.sh 1 delete", "refuse 050-f/hooks/grow.sh 1 namespace", "look",
		"delete-kind Rule", "stick-helm g", "vanish h-a", "configmap-set hEnabled false", "uses g Rule",
	}
	for _, step := range wanted {
		if drawn[step] == 0 {
			t.Errorf("no random script has the step %q", step)
		}
	}
}
