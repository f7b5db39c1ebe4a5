package actors_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"addon-operator/testkit"
)

// J15: of 60 modules an operator at rest writes no object. A start writes each twice, once to create it; a reload
// that changes nothing writes what it shows of its runs; a restart writes only what differs, and a module that
// changes by itself one.
func TestWritesOfModuleObjects(t *testing.T) {
	t.Parallel()
	const modules = 60
	s := testkit.NewScript("J15: objects are written sparingly.")
	enabled := &strings.Builder{}
	for i := range modules {
		name := fmt.Sprintf("m%03d", i)
		s.File(fmt.Sprintf("modules/%03d-%s/Chart.yaml", i, name), "name: "+name+"\n")
		fmt.Fprintf(enabled, "%sEnabled: true\n", name)
	}
	s.File("modules/values.yaml", enabled.String())
	s.Step("module-objects quiet", "start", "advance 1m", "module-writes", // created, and shown
		"advance 30m", "module-writes", // idle
		"configmap-set m007 x: 1", "advance 1m", "module-writes", // one module
		"configmap-set global x: 1", "advance 1m", "module-writes", // all
		"health m003-b Failed", "advance 1m", "health m003-b Current", "advance 10m", "module-writes",
		"stop", "start", "advance 1m", "module-writes")
	var got []string
	for _, found := range regexp.MustCompile(`writes of objects: (\d+) of all modules, (\d+) of one`).FindAllStringSubmatch(s.Play(t, 0).Trace, -1) {
		got = append(got, found[1]+"/"+found[2])
	}
	if len(got) != 6 {
		t.Fatalf("the script counts %d times: %q", len(got), got)
	}
	for i, want := range []struct {
		when      string
		all, most int
	}{
		{"the start", 2*modules + 1, 3}, // the Deployment of m003 is in progress first
		{"an idle half hour", 0, 0},
		{"a module that changes", 1, 1},
		{"a reload in which all change", modules, 1},
		{"an object that fails and recovers", 2, 2},
		{"a restart", modules, 1},
	} {
		all, most, _ := strings.Cut(got[i], "/")
		a, err := strconv.Atoi(all)
		m, err2 := strconv.Atoi(most)
		if err != nil || err2 != nil || a > want.all || m > want.most {
			t.Errorf("%s writes %s times, of one module %s times; at most %d and %d are wanted", want.when, all, most, want.all, want.most)
		}
	}
}
