package actors_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"addon-operator/actors/converge"
	"addon-operator/actors/modules"
	"addon-operator/actors/monitors"
)

// The diagrams of phases, in the comments of each actor that has phases, are what its code allows.
func TestPhasesAreDrawn(t *testing.T) {
	for actor, allowed := range map[string][]string{
		"converge": converge.Phases().List("converge"),
		"modules":  modules.Phases().List("modules"),
		"monitors": monitors.Phases().List("monitors"),
	} {
		if got := drawn(t, actor); !slices.Equal(got, allowed) {
			t.Errorf("drawn, but not allowed: %q\nallowed, but not drawn: %q", without(got, allowed), without(allowed, got))
		}
	}
}

// drawn are the arrows in the comments of a package's phase.go, as "package: from to to".
func drawn(t *testing.T, actor string) (arrows []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(actor, "phase.go"))
	if err != nil {
		t.Fatal(err)
	}
	arrow := regexp.MustCompile(`^ *(\w+) -\w+-> (\w+)`)
	last := regexp.MustCompile(`^(\w+)`)
	for line := range strings.Lines(string(text)) {
		line, isDrawing := strings.CutPrefix(strings.TrimSpace(line), "//\t")
		for isDrawing && line != "" {
			if m := arrow.FindStringSubmatch(line); m != nil {
				arrows = append(arrows, actor+": "+m[1]+" to "+m[2])
				line = line[len(m[0])-len(last.FindString(m[2])):]
				continue
			}
			_, line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
		}
	}
	slices.Sort(arrows)
	return slices.Compact(arrows)
}

func without(all, those []string) []string {
	left := map[string]bool{}
	for _, s := range all {
		left[s] = !slices.Contains(those, s)
	}
	maps.DeleteFunc(left, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(left))
}
