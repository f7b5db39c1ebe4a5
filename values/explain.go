package values

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// The layers as they are called in an explanation (D5). The names are part of the JSON of the debug
// pages.
const (
	LayerChart     = "chart"     // below 1: the values.yaml of a chart in chart/
	LayerFile      = "file"      // 1 and 2: values.yaml
	LayerDefault   = "default"   // 3 and 5: a schema
	LayerConfigMap = "ConfigMap" // 4: written by a person or, with a hook, by a config patch
	LayerSecret    = "Secret"    // 4: the same, right above the ConfigMap (D40)
	LayerPatch     = "patch"     // 6: a values patch
)

// Source is the value at one path in one layer.
type Source struct {
	Layer string `json:"layer"`
	// File is the values.yaml or the schema.
	File string `json:"file,omitempty"`
	Origin
	// Value is the value at the path after this layer and all below it. Removed: this layer took
	// the value away.
	Value   any  `json:"value"`
	Removed bool `json:"removed,omitempty"`
}

// Leaf is the history of one value: a scalar, a list or an empty map. Lists are leaves because
// layers replace them as a whole (D6).
type Leaf struct {
	// Path as users write it: someModule.a.b[2]["odd key"].
	Path string `json:"path"`
	// Secret: the value must not be shown, because a key on the way to it looks like that of a
	// secret (D38), the schema marks it, or it comes from the Secret (D41).
	Secret bool `json:"secret,omitempty"`
	// Sources begin with the one in force; each overrode the next.
	Sources []Source `json:"sources"`
	// Note describes how the files of the values differ from those in force; Explain
	// leaves it empty.
	Note string `json:"note,omitempty"`
}

// Explain returns the sources of the values at a path. A path to a map explains all leaves below
// it, also those that a hook has removed. Paths are dotted (a.b[2]) or JSON
// pointers (/a/b/2), with or without the key of the section; an empty one explains everything. The
// error for a path that was never set lists the existing keys. Unless secrets are asked for, the leaves are without what
// looks like one.
//
// A section stores only its layers and the origins of patches. The history is computed on each
// call.
func (s *Section) Explain(path string, secrets bool) ([]Leaf, error) {
	h, err := historyOf(s)
	if err != nil {
		return nil, err
	}
	asked, err := h.asked(path)
	if err != nil {
		return nil, err
	}
	paths := h.explained(asked)
	var leaves []Leaf
	for _, text := range sortedKeys(paths) {
		leaves = append(leaves, h.leaf(paths[text], secrets))
	}
	if len(leaves) == 0 {
		return nil, h.unknown(asked)
	}
	return leaves, nil
}

// OverChart lets Explain show what a chart sets where no layer sets a value (A20). read returns the
// values.yaml of the chart; Explain calls it each time. The values themselves do not change: Helm
// merges the section over the values of the chart.
func (s *Section) OverChart(file string, read func() (any, error)) *Section {
	changed := *s
	changed.chartFile, changed.readChart = file, read
	return &changed
}

// history is how the merged values of a section came about: one stage for each layer and each saved
// operation, lowest first.
type history struct {
	section *Section
	merged  any // over the defaults of the chart
	stages  []stage
}

// stage is the section after one more layer or saved operation.
type stage struct {
	source Source
	tree   any
	// layer is what a file, ConfigMap, Secret or patch contains; nil for defaults.
	layer any
	reach pointer // of an operation, the container above the first list on its path: elsewhere it has no effect
}

// historyOf computes the section again and keeps each step. It merges the values of the section's chart below each
// stage, because Helm merges the section over them; so paths of the chart exist in all stages. It leaves out the
// chart's values of global: they belong to another section, which all modules may override.
func historyOf(s *Section) (history, error) {
	h := history{section: s}
	var below any
	add := func(source Source, tree, layer any, reach pointer) {
		h.stages = append(h.stages, stage{source, Merge(below, tree), layer, reach})
	}
	if s.readChart != nil {
		values, err := s.readChart()
		if err != nil {
			return h, err
		}
		if content, ok := values.(map[string]any); ok {
			below = cutAt(content, pointer{GlobalKey})
			add(Source{Layer: LayerChart, File: s.chartFile}, nil, below, nil)
		}
	}
	_, _, _ = s.stack(func(source Source, tree, layer any) { // the sizes were checked when the section was made
		add(source, storable(s.key, tree), layer, nil)
	})
	tree := s.unpatched
	for _, operation := range s.saved {
		path := mustPointer(operation.Path)[1:]
		tree = operation.over(tree, path, nil)
		var layer any
		if operation.HasValue {
			layer = putAt(nil, path, operation.Value)
		}
		add(Source{Layer: LayerPatch, Origin: operation.Origin()}, tree, layer, mustPointer(aboveLists(operation.Path))[1:])
	}
	h.merged = Merge(below, s.merged)
	return h, nil
}

// leaf collects the sources of a path. A layer that repeats the value below it is a source, because it would win if
// the one below changed. Operations that neither reach the path nor contain it are skipped without comparing trees:
// there may be thousands of them.
func (h history) leaf(path pointer, secrets bool) Leaf {
	leaf := Leaf{Path: h.dotted(path), Secret: h.section.Secrets().leaf(path)}
	var before any
	had := false
	for _, st := range h.stages {
		if st.reach != nil && !st.reach.contains(path) && !path.contains(st.reach) {
			continue
		}
		source, layer := st.source, st.source.Layer
		after, has := lookup(st.tree, path)
		_, sets := lookup(st.layer, path)
		if had != has || !reflect.DeepEqual(before, after) || has && sets && st.layer != nil {
			if source.Value, source.Removed = after, had && !has; layer == LayerConfigMap || layer == LayerSecret {
				source.Origin = h.configOrigin(path, st)
			}
			if !secrets {
				source.Value = Mask(after, leaf.Secret)
			}
			leaf.Sources = append(leaf.Sources, source)
		}
		before, had = after, has
	}
	slices.Reverse(leaf.Sources)
	return leaf
}

// configOrigin reports whether a hook wrote what the ConfigMap or the Secret contains at a path. If
// the value now differs from what the hook wrote, a person has changed it since, and the origin is
// that of the object.
func (h history) configOrigin(path pointer, st stage) Origin {
	now, _ := lookup(st.layer, path)
	for _, operation := range slices.Backward(h.section.configSaved) {
		if at := mustPointer(operation.Path)[1:]; operation.HasValue && at.contains(path) {
			if wrote, ok := lookup(operation.Value, path[len(at):]); ok && reflect.DeepEqual(wrote, now) {
				return operation.Origin()
			}
		}
	}
	return st.source.Origin
}

// explained returns the paths of all leaves that match: those in force, and those that a later layer
// removed.
func (h history) explained(asked pointer) map[string]pointer {
	found := map[string]pointer{}
	note := func(path pointer, value any) {
		if asked.contains(path) {
			found[path.String()] = path
		} else if path.contains(asked) { // a place inside of a list
			if _, ok := lookup(value, asked[len(path):]); ok {
				found[asked.String()] = asked
			}
		}
	}
	eachLeaf(h.merged, nil, note)
	gone := func(path pointer, value any) {
		if h.isGone(path) {
			note(path, value)
		}
	}
	for _, st := range h.stages { // an operation that one removes is not saved
		if st.reach == nil {
			eachLeaf(st.tree, nil, gone)
		}
	}
	return found
}

// isGone reports whether a path leads into a map that lacks it now. A path below a scalar or a list
// that replaced a map is not gone but part of that leaf's history.
func (h history) isGone(path pointer) bool {
	for i := range path {
		if value, found := lookup(h.merged, path[:i]); found && !isMapOf(value) {
			return false
		}
	}
	_, found := lookup(h.merged, path)
	return !found
}

// eachLeaf visits the scalars, lists and empty maps of a tree, in no particular order. A path is
// not reused, so visit may keep it.
func eachLeaf(tree any, path pointer, visit func(pointer, any)) {
	m, ok := tree.(map[string]any)
	if !ok || len(m) == 0 {
		visit(path, tree)
		return
	}
	for key, child := range m {
		eachLeaf(child, append(path[:len(path):len(path)], key), visit)
	}
}

// asked parses a path that a user gave and removes the key of the section in front, unless the
// section itself has a key of that name.
func (h history) asked(text string) (pointer, error) {
	path, err := ParsePath(text)
	if err != nil {
		return nil, err
	}
	if len(path) > 0 && path[0] == h.section.key {
		if _, own := lookup(h.merged, path[:1]); !own {
			path = path[1:]
		}
	}
	return path, nil
}

// unknown explains how far a path that was never set leads, and which keys exist there.
func (h history) unknown(asked pointer) error {
	for i := len(asked) - 1; i >= 0; i-- {
		value, found := lookup(h.merged, asked[:i])
		if !found {
			continue
		}
		there := "is " + describe(value)
		if m, ok := value.(map[string]any); ok {
			there = "has " + cmp.Or(Shorten(strings.Join(sortedKeys(m), ", "), 2*maxWord), "no keys")
		}
		return fmt.Errorf("there is no %s; %s %s", h.dotted(asked), h.dotted(asked[:i]), there)
	}
	return errors.New("there are no values")
}

func (h history) dotted(path pointer) string { return dottedIn(h.section.key, h.merged, path) }

// dottedIn writes a path within a section, or in a document that has no key, as users do.
func dottedIn(key string, section any, path pointer) string {
	if key == "" {
		return Dotted(section, path)
	}
	return Dotted(map[string]any{key: section}, append(pointer{key}, path...))
}
