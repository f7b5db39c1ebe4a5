package actors

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The diagrams of phases, in the comments of phases.go, are what the code allows.
func TestPhasesAreDrawn(t *testing.T) {
	allowed := slices.Concat(convergePhases().list(), modulePhases().list(), monitorPhases().list())
	slices.Sort(allowed)
	if got := drawn(t); !slices.Equal(got, allowed) {
		t.Errorf("drawn: %q\nallowed: %q", got, allowed)
	}
}

// drawn are the arrows in the comments, as "from to to".
func drawn(t *testing.T) (arrows []string) {
	t.Helper()
	text, err := os.ReadFile("phases.go")
	if err != nil {
		t.Fatal(err)
	}
	arrow := regexp.MustCompile(`^ *(\w+) -\w+-> (\w+)`)
	for line := range strings.Lines(string(text)) {
		line, isDrawing := strings.CutPrefix(strings.TrimSpace(line), "//\t")
		for isDrawing && line != "" {
			if m := arrow.FindStringSubmatch(line); m != nil {
				arrows = append(arrows, m[1]+" to "+m[2])
				line = line[len(m[0])-len(m[2]):]
				continue
			}
			_, line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
		}
	}
	slices.Sort(arrows)
	return slices.Compact(arrows)
}

// list is the changes as "from to to".
func (all phases[P]) list() (changes []string) {
	for from, next := range all {
		for _, to := range next {
			changes = append(changes, fmt.Sprintf("%s to %s", from, to))
		}
	}
	return changes
}
