package operator

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// The GOGC of the image ends with the start and is not inherited by hooks; that of a person stays.
func TestColdStart(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(7))
	for set, want := range map[string]struct {
		percent int
		left    string
	}{imageGOGC: {100, ""}, "50": {7, "50"}, "": {7, ""}} {
		t.Setenv("GOGC", set)
		debug.SetGCPercent(7)
		coldStart()()
		if got := debug.SetGCPercent(7); got != want.percent || os.Getenv("GOGC") != want.left {
			t.Errorf("GOGC=%s: %d %% and %q after the start, want %v", set, got, os.Getenv("GOGC"), want)
		}
	}
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil || !strings.Contains(string(dockerfile), "\nENV GOGC="+imageGOGC+"\n") {
		t.Errorf("the image does not set GOGC=%s, %v", imageGOGC, err)
	}
}
