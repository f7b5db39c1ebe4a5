package values

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// at is a time of the tests, so many minutes after noon.
func at(minutes int) time.Time { return time.Date(2026, 1, 2, 12, minutes, 0, 0, time.UTC) }

func hookOrigin(name string, minutes int) Origin {
	return Origin{Hook: name, Task: fmt.Sprint(minutes), Time: at(minutes)}
}

// story shows a leaf as a reader would tell it: the source in force first.
func story(l Leaf) string {
	var parts []string
	for _, s := range l.Sources {
		who := s.File
		if s.Hook != "" {
			who = s.Hook + "#" + s.Task + "@" + s.Time.Format("15:04")
		} else if s.Revision != "" {
			who = "rv" + s.Revision + "@" + s.Time.Format("15:04")
		}
		value, err := JSON(s.Value)
		if err != nil {
			value = []byte(err.Error())
		}
		if s.Removed {
			value = []byte("removed")
		}
		parts = append(parts, fmt.Sprintf("%s %s %s", s.Layer, who, value))
	}
	return l.Path + ": " + strings.Join(parts, " < ")
}

func wantStory(t *testing.T, section *Section, path string, want ...string) {
	t.Helper()
	leaves, err := section.Explain(path, true)
	wantError(t, err)
	var got []string
	for _, l := range leaves {
		got = append(got, story(l))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", path, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// explained is a section in which every layer of D5 has spoken.
func explained(t *testing.T) *Section {
	t.Helper()
	schemas := schemasOf(t,
		"{additionalProperties: true, properties: {level: {default: info}, size: {default: 9}, net: {additionalProperties: true, properties: {mtu: {default: 1500}}}}}",
		"{additionalProperties: true, properties: {internal: {additionalProperties: true, default: {}, properties: {nodes: {default: 0}}}}}")
	section, err := NewSection("m", schemas,
		Layer{Source: "modules/values.yaml", Value: yamlTree(t, "{size: 1, list: [a], gone: {deep: 1}}")},
		Layer{Source: "m/values.yaml", Value: yamlTree(t, "{size: 2, map: {x: 1, w: 1}, scalar: 1}")})
	wantError(t, err)
	section, err = section.WithConfig(yamlTree(t, "{size: 3, net: {}, map: {x: 1}, odd.key: {a/b: 1}, scalar: {x: 1}}"), Origin{Revision: "7", Time: at(1)})
	wantError(t, err)
	section, err = section.Patch(patchOf(t, `[{"op":"add","path":"/m/list/-","value":"b"},{"op":"replace","path":"/m/size","value":4},{"op":"add","path":"/m/internal/nodes","value":2}]`), hookOrigin("one.sh", 2))
	wantError(t, err)
	section, err = section.Patch(patchOf(t, `[{"op":"add","path":"/m/list/-","value":"c"},{"op":"remove","path":"/m/gone"},{"op":"add","path":"/m/map/w","value":1}]`), hookOrigin("two.sh", 3))
	wantError(t, err)
	return section
}

// Issue 4, provenance: each leaf knows its layer, file or hook, run and time, and what it overrode.
func TestExplain(t *testing.T) {
	section := explained(t)
	size := "m.size: patch one.sh#2@12:02 4 < ConfigMap rv7@12:01 3 < file m/values.yaml 2 < file modules/values.yaml 1"
	gone := "m.gone.deep: patch two.sh#3@12:03 removed < file modules/values.yaml 1"
	list := `m.list: patch two.sh#3@12:03 ["a","b","c"] < patch one.sh#2@12:02 ["a","b"] < file modules/values.yaml ["a"]`
	mapX := "m.map.x: ConfigMap rv7@12:01 1 < file m/values.yaml 1"
	mapW := "m.map.w: patch two.sh#3@12:03 1 < file m/values.yaml 1"
	scalar := `m.scalar.x: ConfigMap rv7@12:01 1`
	for name, c := range map[string]struct {
		path string
		want []string
	}{
		"a scalar with all layers":                 {"size", []string{size}},
		"with the key of the section":              {"m.size", []string{size}},
		"a JSON pointer":                           {"/m/size", []string{size}},
		"an element that a hook appended":          {"list[1]", []string{`m.list[1]: patch one.sh#2@12:02 "b"`}},
		"a list as a whole":                        {"list", []string{list}},
		"the same value again is an override, too": {"map", []string{mapW, mapX}},
		"a default that the ConfigMap made room":   {"net", []string{"m.net.mtu: default openapi/config-values.yaml 1500"}},
		"a default":                                {"level", []string{`m.level: default openapi/config-values.yaml "info"`}},
		"a default below a default":                {"internal", []string{"m.internal.nodes: patch one.sh#2@12:02 2 < default openapi/values.yaml 0"}},
		"what a hook removed":                      {"gone", []string{gone}},
		"odd keys":                                 {`["odd.key"]["a/b"]`, []string{`m["odd.key"]["a/b"]: ConfigMap rv7@12:01 1`}},
		"a map over a scalar":                      {"scalar", []string{scalar}},
	} {
		t.Run(name, func(t *testing.T) { wantStory(t, section, c.path, c.want...) })
	}
	all, err := section.Explain("", true)
	wantError(t, err)
	if len(all) != 10 {
		t.Errorf("%d leaves: %v", len(all), all)
	}
}

// No source sets it: the answer says what is there.
func TestExplainUnknownPaths(t *testing.T) {
	section := explained(t)
	for path, want := range map[string]string{
		"sizes":       "there is no m.sizes; m has internal, level, list, map",
		"map.z":       "there is no m.map.z; m.map has w, x",
		"size.x":      "there is no m.size.x; m.size is an integer",
		"list[9]":     "there is no m.list[9]; m.list is a list",
		"a..b":        "write a.b for a key, [2] for an index",
		"a[":          "write a.b for a key, [2] for an index",
		"a]b[0]c":     "write a.b for a key, [2] for an index",
		"/a~2":        "write ~ as ~0",
		`["a]`:        "write a.b for a key, [2] for an index",
		"nothing.x.y": "there is no m.nothing.x.y",
	} {
		t.Run(path, func(t *testing.T) {
			wantError(t, second(section.Explain(path, true)), want)
		})
	}
	wantError(t, second(sectionOf(t, "m", nil, "", "").Explain("x", true)), "m has no keys")
}

// Config patches: the hook is remembered until a person writes something else there.
func TestExplainConfigPatches(t *testing.T) {
	section, err := sectionOf(t, "m", nil, "{a: 0}", "").WithConfig(yamlTree(t, "{b: 1}"), Origin{Revision: "1", Time: at(1)})
	wantError(t, err)
	section, err = section.PatchConfig(patchOf(t, `[{"op":"add","path":"/m/a","value":{"x":1,"w":2}},{"op":"add","path":"/m/list","value":[]}]`), hookOrigin("one.sh", 2), true)
	wantError(t, err)
	section, err = section.PatchConfig(patchOf(t, `{"op":"add","path":"/m/list/-","value":"e"}`), hookOrigin("two.sh", 3), true)
	wantError(t, err)
	wantStory(t, section, "a", "m.a.w: ConfigMap one.sh#2@12:02 2", "m.a.x: ConfigMap one.sh#2@12:02 1")
	wantStory(t, section, "b", "m.b: ConfigMap rv1@12:01 1")
	wantStory(t, section, "list", `m.list: ConfigMap two.sh#3@12:03 ["e"]`)

	section, err = section.WithConfig(yamlTree(t, "{a: {x: 5, w: 2}, list: [f], b: 1}"), Origin{Revision: "9", Time: at(4)})
	wantError(t, err)
	wantStory(t, section, "a", "m.a.w: ConfigMap one.sh#2@12:02 2", "m.a.x: ConfigMap rv9@12:04 5")
	wantStory(t, section, "list", `m.list: ConfigMap rv9@12:04 ["f"]`)
}

// The source in force names the value in force, whatever has happened to the section.
func TestExplanationsAgreeWithTheValues(t *testing.T) {
	schemas := schemasOf(t, "{additionalProperties: true, properties: {a: {additionalProperties: true, properties: {b: {default: 1}}}}}", "{additionalProperties: true, properties: {c: {default: {}}}}")
	for seed := range often[uint64](1000) {
		r := rand.New(rand.NewPCG(seed, 20))
		section, err := NewSection("m", schemas, Layer{Source: "one", Value: randomMap(r, 3)}, Layer{Source: "two", Value: randomMap(r, 3)})
		wantError(t, err)
		for i := range 8 {
			var changed *Section
			switch by := hookOrigin("h", i); r.IntN(4) {
			case 0:
				changed, err = section.WithConfig(randomMap(r, 3), by)
			case 1:
				changed, err = section.PatchConfig(Patch{randomRFCOperation(r, section.Config())}, by, true)
			default:
				changed, err = section.Patch(Patch{randomRFCOperation(r, section.Merged())}, by)
			}
			if err == nil {
				section = changed
			}
		}
		before := jsonText(t, section.Merged())
		told := map[string]bool{}
		leaves, err := section.Explain("", true)
		if err != nil && len(section.Merged().(map[string]any)) > 0 {
			t.Fatalf("seed %d: %v", seed, err)
		}
		h, err := historyOf(section)
		wantError(t, err)
		for _, l := range leaves {
			told[l.Path] = true
			path, err := h.asked(l.Path)
			wantError(t, err)
			value, present := lookup(section.Merged(), path)
			if len(l.Sources) == 0 {
				t.Fatalf("seed %d: nobody said %s of %s", seed, l.Path, before)
			}
			if first := l.Sources[0]; first.Removed == present || present && !reflect.DeepEqual(first.Value, value) {
				t.Fatalf("seed %d: %s, but the value is %s", seed, story(l), jsonText(t, value))
			}
		}
		eachLeaf(section.Merged(), nil, func(path pointer, _ any) {
			if !told[h.dotted(path)] {
				t.Fatalf("seed %d: %s is not explained", seed, h.dotted(path))
			}
		})
		if jsonText(t, section.Merged()) != before {
			t.Fatalf("seed %d: explaining changed the values", seed)
		}
	}
}

// D23: what compaction and folding leave still has an origin.
func TestSavedOperationsKeepTheirOrigin(t *testing.T) {
	section := sectionOf(t, "m", nil, "{list: [], a: {}}", "")
	var err error
	for i := range 2 * foldLimit {
		section, err = section.Patch(patchOf(t, fmt.Sprintf(`[{"op":"add","path":"/m/list/-","value":%[1]d},{"op":"add","path":"/m/a/b%[1]d","value":1},{"op":"remove","path":"/m/a/b%[1]d"}]`, i)), hookOrigin("h.sh", i))
		wantError(t, err)
	}
	for _, o := range section.Saved(true) {
		if o.Origin().Hook != "h.sh" || o.Origin().Time.IsZero() {
			t.Fatalf("%s has no origin", o)
		}
	}
	wantError(t, err)
	if (Operation{}).Origin() != (Origin{}) {
		t.Error("an operation that was not saved has an origin")
	}
}

// The paths that explanations print can be asked for.
func FuzzParsePath(f *testing.F) {
	for _, text := range []string{"", "a", "a.b", "a[2].c", `a["odd key"][0]`, "/a/b~1c/0", "a[", "a]", "[x]", `["\u00e9"]`, "a.b[2]x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := ParsePath(text)
		if err != nil || len(path) == 0 {
			return
		}
		printed := Dotted(nil, path)
		again, err := ParsePath(printed)
		if err != nil || !reflect.DeepEqual(again, path) {
			t.Fatalf("%q is %q, printed as %s, read as %q: %v", text, path, printed, again, err)
		}
	})
}

// A20: what a chart says itself is the lowest layer of an explanation, and of nothing else.
func TestExplainChart(t *testing.T) {
	schemas := schemasOf(t, "{additionalProperties: true, properties: {level: {default: info}}}", "")
	base, err := NewSection("m", schemas, Layer{Source: "values.yaml", Value: yamlTree(t, "{replicas: 2, image: {tag: b}}")})
	wantError(t, err)
	own := base.OverChart("chart/values.yaml", func() (any, error) {
		return yamlTree(t, "{replicas: 1, level: debug, image: {tag: a, name: web}, global: {a: 1}, list: [1]}"), nil
	})
	if own.Checksum() != base.Checksum() {
		t.Errorf("the values have changed: %v", own.Merged())
	}
	wantStory(t, own, "",
		"m.image.name: chart chart/values.yaml \"web\"",
		"m.image.tag: file values.yaml \"b\" < chart chart/values.yaml \"a\"",
		"m.level: default openapi/config-values.yaml \"info\" < chart chart/values.yaml \"debug\"",
		"m.list: chart chart/values.yaml [1]",
		"m.replicas: file values.yaml 2 < chart chart/values.yaml 1")
	wantStory(t, own, "m.list[0]", "m.list[0]: chart chart/values.yaml 1")
	own, err = own.WithConfig(yamlTree(t, "{image: {name: other}}"), Origin{Revision: "7", Time: at(1)})
	wantError(t, err)
	wantStory(t, own, "image.name", "m.image.name: ConfigMap rv7@12:01 \"other\" < chart chart/values.yaml \"web\"")
	own, err = own.Patch(patchOf(t, `[{"op":"remove","path":"/m/replicas"}]`), hookOrigin("one.sh", 2))
	wantError(t, err)
	wantStory(t, own, "replicas", "m.replicas: patch one.sh#2@12:02 1 < file values.yaml 2 < chart chart/values.yaml 1")
	if _, err := own.Explain("none", true); err == nil || !strings.Contains(err.Error(), "there is no m.none; m has image, level, list, replicas") {
		t.Errorf("a path that is nowhere: %v", err)
	}
	broken := base.OverChart("chart/values.yaml", func() (any, error) { return nil, errors.New("broken") })
	if _, err := broken.Explain("replicas", true); err == nil {
		t.Error("a chart that cannot be read is passed over in silence")
	}
}
