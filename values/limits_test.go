package values

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// bombs are texts that a ConfigMap can hold and that stand for more than there is memory, or for too deep a tree.
func bombs() map[string]string {
	keys := ""
	for i := range 3000 {
		keys += fmt.Sprintf("k%d: 1,", i)
	}
	return map[string]string{
		"a long text":     "big: &a " + strings.Repeat("x", 600<<10) + "\nl: [" + strings.Repeat("*a,", 90_000) + "]\n",
		"a long key":      "big: &a " + strings.Repeat("x", 600<<10) + "\nl: [" + strings.Repeat("{*a : 1},", 30_000) + "]\n",
		"a merged map":    "big: &a {x: " + strings.Repeat("x", 600<<10) + "}\nl: [" + strings.Repeat("{<<: *a},", 30_000) + "]\n",
		"merged keys":     "big: &a {" + keys + "}\nl: [" + strings.Repeat("{<<: *a},", 30_000) + "]\n",
		"aliases of them": "a: &a " + strings.Repeat("x", 1<<10) + "\nb: &b [" + strings.Repeat("*a,", 100) + "]\nc: [" + strings.Repeat("*b,", 100) + "]\n",
		"deep lists":      "l: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"deep maps":       strings.Repeat("{a: ", 9000) + strings.Repeat("}", 9000),
		"deep by aliases": "a: &a " + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "\nb: " + strings.Repeat("[", 60) + "*a" + strings.Repeat("]", 60),
		"only mistakes":   "[" + strings.Repeat("{a,a},", 100_000) + "]",
	}
}

// D39: what is too large or too deep is refused before anything is made of it, with the limit and what to do.
func TestParseYAMLIsBounded(t *testing.T) {
	for name, want := range map[string][]string{
		"a long text":     {"the values have more than 1 MiB, or more than 50000 keys and values, with all aliases written out; remove values or aliases"},
		"a long key":      {"the values have more than 1 MiB"},
		"a merged map":    {"the values have more than 1 MiB"},
		"merged keys":     {"the values have more than 1 MiB"},
		"aliases of them": {"the values have more than 1 MiB"},
		"deep lists":      {"lists and maps are nested more than 100 deep; nest them less"},
		"deep maps":       {"lists and maps are nested more than 100 deep"},
		"deep by aliases": {"lists and maps are nested more than 100 deep"},
		"only mistakes":   {`line 1: key "a" is already set in line 1`},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(bombs()[name])
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := ParseYAML(text)
			runtime.ReadMemStats(&after)
			wantError(t, err, want...)
			if len(err.Error()) > 8<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 500 {
				t.Errorf("%d MiB were allocated", allocated)
			}
		})
	}
}

// D39: what is just within the limits is taken.
func TestLimitsAreWideEnough(t *testing.T) {
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	quarter := "big: &a " + strings.Repeat("x", 1<<18-100) + "\nl: ["
	for text, fits := range map[string]bool{
		nested(100): true, nested(101): false,
		"a: &a " + nested(49) + "\nb: " + strings.Repeat("[", 50) + "*a" + strings.Repeat("]", 50): true,
		"a: &a " + nested(50) + "\nb: " + strings.Repeat("[", 50) + "*a" + strings.Repeat("]", 50): false,
		quarter + "*a, *a, *a]": true, quarter + "*a, *a, *a, *a]": false,
		"[" + strings.Repeat("1,", 49_999) + "]": true, "[" + strings.Repeat("1,", 50_000) + "]": false,
		"a: " + strings.Repeat("x", 1<<20-100): true, "a: " + strings.Repeat("x", 1<<20): false,
	} {
		if _, err := ParseYAML([]byte(text)); (err == nil) != fits {
			t.Errorf("%s: %v", brief(text), err)
		}
	}
	for text, fits := range map[string]bool{
		nested(100): true, nested(101): false, nested(9000): false,
		strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100): true, strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101): false,
		`"` + strings.Repeat("x", 1<<20-2) + `"`: true, `"` + strings.Repeat("x", 1<<20) + `"`: false,
	} {
		if _, err := ParseJSON([]byte(text)); (err == nil) != fits {
			t.Errorf("%s: %v", brief(text), err)
		}
	}
}

// D39: all keys of the ConfigMap are read, those of unknown modules, too, and the bad one is named.
func TestConfigMapIsBounded(t *testing.T) {
	_, err := ParseConfigMap(map[string]string{"one": "a: 1", "unknown": bombs()["a long text"], "other": bombs()["deep lists"]})
	wantError(t, err, "ConfigMap key unknown: the values have more than 1 MiB", "ConfigMap key other: lists and maps are nested")
	_, err = ParseFile("modules/values.yaml", []byte("one:\n  x: &a "+strings.Repeat("x", 600<<10)+"\n  l: ["+strings.Repeat("*a,", 1000)+"]\n"))
	wantError(t, err, "values file modules/values.yaml: the values have more than 1 MiB")
}

// D39: a patch holds not more than a section may, and a section does not grow beyond that.
func TestPatchIsBounded(t *testing.T) {
	const add = `{"op":"add","path":"/m/a","value":`
	text := func(size int) string { return `"` + strings.Repeat("x", size) + `"` }
	doubling, deeper := "", ""
	for i := range 30 {
		doubling += fmt.Sprintf(`{"op":"copy","from":"/m","path":"/m/copy%d"}`, i)
	}
	for i := range 120 {
		deeper += `{"op":"add","path":"/m` + strings.Repeat("/a", i+1) + `","value":{}}`
	}
	back := strings.Repeat(`{"op":"copy","from":"/m/big","path":"/m/copy"}{"op":"remove","path":"/m/copy"}`, 1000)
	section := sectionOf(t, "m", nil, "{big: "+strings.Repeat("x", 1<<18)+", deep: {}}", "") // no patch changes it: each makes another one
	for name, c := range map[string]struct {
		patch string
		want  []string
	}{
		"many operations":            {strings.Repeat(`{"op":"add","path":"/web/a","value":1}`+"\n", 20_001), []string{"the patch has more than 20000 operations"}},
		"a file of 2 MiB":            {add + text(2<<20) + "}", []string{"the text has", "more than 1 MiB"}},
		"copies of copies":           {doubling, []string{"patch operation", "copy /m to /m/copy", "more than 1 MiB"}},
		"copies that do not stay":    {back, []string{"patch operation", "more than 1 MiB"}},
		"a deep value":               {add + strings.Repeat("[", 101) + strings.Repeat("]", 101) + "}", []string{"nested more than 100 deep"}},
		"a value in a deep place":    {add + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", []string{"nested more than 100 deep"}},
		"deeper with each operation": {deeper, []string{"section m after the patch: ", "nested more than 100 deep"}},
		"nothing but mistakes":       {strings.Repeat("{}", 20_000), []string{"patch operation 1: op is missing"}},
		"more than fits":             {add + text(900<<10) + "}", []string{"section m after the patch: the values have more than 1 MiB"}},
		"what fits":                  {add + text(1<<19) + "}", nil},
		"what takes a place":         {`{"op":"add","path":"/m/big","value":` + text(900<<10) + "}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			patch, _, err := ParsePatch([]byte(c.patch))
			if err == nil {
				_, err = section.Patch(patch, Origin{})
			}
			wantError(t, err, c.want...)
		})
	}

	half := patchOf(t, `{"op":"add","path":"/m/list","value":[]}`)
	appending := patchOf(t, `{"op":"add","path":"/m/list/-","value":`+text(1<<17)+"}")
	section, err := section.Patch(half, Origin{})
	for range 5 {
		wantError(t, err)
		section, err = section.Patch(appending, Origin{})
	}
	wantError(t, err)
	_, err = section.Patch(appending, Origin{})
	wantError(t, err, "section m after the patch", "more than 1 MiB")
	_, err = section.PatchConfig(patchOf(t, `[{"op":"add","path":"/m/x","value":`+text(1<<19)+`}]`), Origin{}, true)
	wantError(t, err)
}
