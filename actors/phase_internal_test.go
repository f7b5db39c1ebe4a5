package actors

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"addon-operator/messages/view"
)

// drawn are the arrows in the comment of a file, as "actor: from to to".
func drawn(t *testing.T, actor, file string) (arrows []string) {
	t.Helper()
	text, err := os.ReadFile(file)
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

// Transitions are the changes of phases that are allowed, as "actor: from to to".
func Transitions() (all []string) {
	for _, from := range []view.Phase{view.Disabled, view.Waiting, view.Starting, view.Running, view.Ready, view.Suspended, view.Deleting} {
		for _, to := range moduleTransitions(from) {
			all = append(all, "module: "+string(from)+" to "+string(to))
		}
	}
	for _, from := range []convergePhase{created, starting, idle, requested, reloading, overtaken} {
		for _, to := range convergeTransitions(from) {
			all = append(all, "converge: "+string(from)+" to "+string(to))
		}
	}
	for _, from := range []monitorPhase{filling, filled, showing, flooded, open, tooLarge, refilling} {
		for _, to := range monitorTransitions(from) {
			all = append(all, "monitor: "+string(from)+" to "+string(to))
		}
	}
	slices.Sort(all)
	return all
}

// The diagrams of phases are what the code allows.
func TestPhasesAreDrawn(t *testing.T) {
	got := slices.Concat(drawn(t, "converge", "converge_phase.go"), drawn(t, "module", "module_phase.go"), drawn(t, "monitor", "monitor_phase.go"))
	if want := Transitions(); !slices.Equal(got, want) {
		t.Errorf("drawn, but not allowed: %q\nallowed, but not drawn: %q", without(got, want), without(want, got))
	}
}

func without(all, those []string) []string {
	left := map[string]bool{}
	for _, s := range all {
		left[s] = !slices.Contains(those, s)
	}
	maps.DeleteFunc(left, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(left))
}
