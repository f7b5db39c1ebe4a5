package values

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
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

// Change is a leaf whose value differs from the one before, both without what looks like a secret.
type Change struct {
	Path   string
	Before any
	After  any
	Added  bool // there was nothing before
	Gone   bool // there is nothing any more
}

// Diff lists the leaves that differ from an older state of the section, sorted by path. A map that
// replaces a scalar is a change of each of its leaves, and of the scalar's path.
func (s *Section) Diff(before *Section) []Change {
	if before.Checksum() == s.Checksum() {
		return nil
	}
	changes := map[string]Change{}
	differs := func(path pointer, _ any) {
		old, had := lookup(before.merged, path)
		now, has := lookup(s.merged, path)
		if isMapOf(old) && isMapOf(now) { // an empty map is a leaf; what is in the other one says more
			return
		}
		if had != has || !reflect.DeepEqual(old, now) {
			secret := s.Secrets().leaf(path) || before.Secrets().leaf(path)
			changes[path.String()] = Change{
				Path: dottedIn(s.key, s.merged, path), Before: Mask(old, secret), After: Mask(now, secret), Added: !had, Gone: !has,
			}
		}
	}
	eachLeaf(before.merged, nil, differs)
	eachLeaf(s.merged, nil, differs)
	var sorted []Change
	for _, path := range sortedKeys(changes) {
		sorted = append(sorted, changes[path])
	}
	return sorted
}
