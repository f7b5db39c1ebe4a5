package values

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Layer is one source of values.
type Layer struct {
	Source string // path of the file, for messages
	Value  any    // a map or a list; nil = the file has no such section
}

// Section holds all layers of one key, "global" or the key of a module, and their merged result
// (D5). It is immutable and safe for concurrent use: every change returns a new section, which
// shares what has not changed.
//
// A change copies the struct, sets the layer and computes the rest: layered if a layer below the
// patches has changed, with if only the merged result has.
type Section struct {
	key     string
	schemas Schemas
	files   []Layer // layers 1 and 2, those that have the section
	config  any     // layer 4; nil = the ConfigMap has no such section
	secret  any     // the upper part of layer 4; nil = the Secret has no such section (D40)
	saved   Patch   // layer 6, canonical and compacted

	// These are for Explain only: who brought the layers of ConfigMap and Secret, what hooks wrote
	// into them since, and the values of a chart below everything; nil if there are none.
	configBy    Origin
	secretBy    Origin
	configSaved Patch
	chartFile   string
	readChart   func() (any, error) // below everything; nil = the chart has no values of its own

	// The results. ValidateConfig checks configured; a replay of the patches starts from unpatched;
	// merged is what users get.
	configured any // layers 1 to 4
	unpatched  any // layers 1 to 5
	merged     any
	// checksum is computed at the first call and cached: an attempt that is discarded needs none.
	checksum func() string
}

// NewSection builds the section of a key from its static layers, the lowest first. schemas may be
// nil. Layers without a value are skipped.
func NewSection(key string, schemas *Schemas, static ...Layer) (*Section, error) {
	s := Section{key: key}
	if schemas != nil {
		s.schemas = *schemas
	}
	for _, layer := range static {
		if layer.Value != nil {
			s.files = append(s.files, layer)
		}
	}
	return s.layered()
}

// layered computes everything that follows from the layers: layers 1 to 5, and the saved patches on
// top. Its receiver is a copy, which it changes. An error means that the defaults are too large
// (D39).
func (s Section) layered() (*Section, error) {
	configured, unpatched, err := s.stack(func(Source, any, any) {})
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", s.key, err)
	}
	s.configured, s.unpatched = storable(s.key, configured), storable(s.key, unpatched)
	return s.with(s.saved.replay(s.unpatched)), nil
}

// stack puts layers 1 to 5 on top of each other, and returns layers 1 to 4, and all. note gets the tree after each
// layer, and what files, ConfigMap and Secret contain themselves.
//
// Defaults of config-values.yaml are filled in twice: below the ConfigMap, as layer 3, so that its
// maps merge with default maps; and above it, where they find only parents that the ConfigMap
// itself has brought (D7).
func (s *Section) stack(note func(source Source, tree, layer any)) (configured, all any, err error) {
	var tree any
	put := func(source Source, layer any) {
		tree = Merge(tree, layer)
		note(source, tree, layer)
	}
	fill := func(from *schema) {
		if from == nil || len(from.defaults.schemas) == 0 || err != nil {
			return
		}
		if tree, err = from.fill(tree); err != nil {
			err = fmt.Errorf("schema %s: %w", from.path, err)
		}
		note(Source{Layer: LayerDefault, File: from.path}, tree, nil)
	}
	for _, file := range s.files {
		put(Source{Layer: LayerFile, File: file.Source}, file.Value)
	}
	fill(s.schemas.config)
	if s.config != nil {
		put(Source{Layer: LayerConfigMap, Origin: s.configBy}, s.config)
	}
	if s.secret != nil {
		put(Source{Layer: LayerSecret, Origin: s.secretBy}, s.secret)
	}
	if s.config != nil || s.secret != nil {
		fill(s.schemas.config)
	}
	configured = tree
	fill(s.schemas.values)
	return configured, tree, err
}

// none is an empty section of the type that the files give it.
func (s *Section) none() any {
	if len(s.files) == 0 {
		return map[string]any{}
	}
	return emptyLike(s.files[len(s.files)-1].Value)
}

// storable makes a section without any values an empty map, and removes global.enabledModules,
// which a schema may describe with a default; only the operator computes it, when it writes values
// for a hook (D9).
func storable(key string, section any) any {
	if section = cmp.Or(section, any(map[string]any{})); key != GlobalKey {
		return section
	}
	return cutAt(section, pointer{enabledModulesKey})
}

// with returns the section with another merged result.
func (s Section) with(merged any) *Section {
	s.merged = merged
	s.checksum = sync.OnceValue(func() string { return Checksum(merged) })
	return &s
}

// Key is "global" or the key of a module.
func (s *Section) Key() string { return s.key }

// Config is the section of the ConfigMap with that of the Secret on top, empty when there is none
// (D8, D40).
func (s *Section) Config() any { return cmp.Or(Merge(s.config, s.secret), s.none()) }

// Merged is the section with all layers, defaults and saved patches (D5).
func (s *Section) Merged() any { return s.merged }

// Checksum is that of Merged, computed once (D27).
func (s *Section) Checksum() string { return s.checksum() }

// WithStored replaces the section of the ConfigMap and that of the Secret right above it (D40); nil is none (D15).
// Saved patches are replayed leniently (D22). The origin of a person's edit is its revision and time.
func (s *Section) WithStored(config, secret any, by, secretBy Origin) (*Section, error) {
	changed := *s
	changed.config, changed.configBy, changed.secret, changed.secretBy = config, by, secret, secretBy
	return changed.layered()
}

// OnFiles returns the section with the static layers and schemas of another one. Everything else
// stays: what people wrote into ConfigMap and Secret, and the saved patches, which are replayed
// leniently (D22, P8).
func (s *Section) OnFiles(files *Section) (*Section, error) {
	changed := *s
	changed.schemas, changed.files = files.schemas, files.files
	changed.chartFile, changed.readChart = files.chartFile, files.readChart
	return changed.layered()
}

// WithoutPatches removes the saved patches (E11).
func (s *Section) WithoutPatches() *Section {
	changed := s.with(s.unpatched)
	changed.saved = nil
	return changed
}

// Patch applies a values patch to the merged values and saves it together with its origin. The
// patch must fit exactly (D21), and its result must be within the limits (D39). It does not check
// the schema: the caller validates the result before it keeps it.
func (s *Section) Patch(p Patch, by Origin) (*Section, error) {
	merged, steps, err := p.apply(s.key, s.merged)
	if err != nil {
		return nil, err
	}
	result := s.with(merged)
	result.saved = s.saved.save(steps, by, s.key, merged)
	return result, nil
}

// PatchConfig applies a config patch to the section of ConfigMap and Secret, starting from an empty one when there is
// none (D24). The schema decides what changes in the Secret and what in the ConfigMap (D41). The patch must fit
// exactly (D21). Sections that are made from the result keep its origin. Without inSecret there is no Secret to write
// to, and all goes to the ConfigMap. The caller writes the result to the cluster.
func (s *Section) PatchConfig(p Patch, by Origin, inSecret bool) (*Section, error) {
	patched, steps, err := p.apply(s.key, s.Config())
	if err != nil {
		return nil, err
	}
	wrote := slices.Clone(steps)
	for i, step := range steps {
		wrote[i] = present(aboveLists(step.Path), s.key, patched, by)
	}
	saved := s.configSaved.save(wrote, by, s.key, patched)
	config, secret := patched, any(nil)
	if inSecret {
		config, secret = s.Stored().divide(patched, steps, s.schemas.marks)
	}
	if isEmpty(config) && slices.ContainsFunc(p, func(o Operation) bool { return o.Op == "remove" && o.Path == JSONPointer(s.key) }) {
		config = nil // the ConfigMap need not keep an empty section
	}
	if isEmpty(secret) {
		secret = nil
	}
	changed := *s
	changed.config, changed.secret, changed.configSaved = config, secret, saved
	return changed.layered()
}

// ValidateConfig validates static values and ConfigMap together against config-values.yaml (X16).
//
// This and the other validations return nil or a *ValidationError with everything that is wrong
// (D38).
func (s *Section) ValidateConfig() error {
	return s.schemas.config.validate(s.key, s.configured, s.Secrets().at)
}

// ValidateValues validates the merged values against values.yaml.
func (s *Section) ValidateValues() error {
	return s.schemas.values.validate(s.key, s.merged, s.Secrets().at)
}

// ValidateForHelm validates the merged values against values.yaml and what it requires before Helm
// runs (D33).
func (s *Section) ValidateForHelm() error {
	return s.schemas.helm.validate(s.key, s.merged, s.Secrets().at)
}

// Hidden replaces a value that looks like a secret (D38).
const Hidden = "***"

// Saved returns the saved operations with their origins, as people are shown them: unless they ask for secrets,
// without what is or looks like one.
func (s *Section) Saved(secrets bool) Patch {
	saved, own := append(Patch{}, s.saved...), s.Secrets()
	for i, o := range saved {
		if !secrets {
			saved[i].Value = own.Hide(o.Value, mustPointer(o.Path)[1:]...)
		}
	}
	return saved
}

// Diff lists the paths of the leaves that differ from an older state of the section, sorted. A map that
// replaces a scalar is a change of each of its leaves, and of the scalar's path.
func (s *Section) Diff(before *Section) []string {
	if before.Checksum() == s.Checksum() {
		return nil
	}
	changed := map[string]string{}
	differs := func(path pointer, _ any) {
		old, had := lookup(before.merged, path)
		now, has := lookup(s.merged, path)
		if isMapOf(old) && isMapOf(now) { // an empty map is a leaf; what is in the other one says more
			return
		}
		if had != has || !reflect.DeepEqual(old, now) {
			changed[path.String()] = dottedIn(s.key, s.merged, path)
		}
	}
	eachLeaf(before.merged, nil, differs)
	eachLeaf(s.merged, nil, differs)
	var sorted []string
	for _, path := range sortedKeys(changed) {
		sorted = append(sorted, changed[path])
	}
	return sorted
}

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

// Explain returns the sources of the values at a path. A path to a map explains all leaves below it, also those that
// a hook has removed. Paths are dotted (a.b[2]) or JSON pointers (/a/b/2), with or without the key of the section; an
// empty one explains everything. The error for a path that was never set lists the existing keys. Unless secrets are
// asked for, the leaves are without what looks like one.
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
