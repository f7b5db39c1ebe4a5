package actors_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What lies on disk in TestDiskRandom, and what of it must be in force. The texts of files are made of a few facts, so that
// the model knows what they mean without reading them.

// Ways in which a file is broken; each is wrong in another place of the operator.
const (
	fine     = ""
	syntax   = "syntax"   // it is not what its format says
	nonsense = "nonsense" // it is, but means nothing
	half     = "half"     // the beginning of it
	failing  = "fail"     // of a template: it renders an error
)

// diskHook is a file in hooks/.
type diskHook struct {
	config int // of hookConfigs
	code   int // which does not matter
	noBit  bool
	broken string
}

// hookConfigs are what hooks bind to; configVersion is left out.
func hookConfigs() []string {
	return []string{
		`onStartup: 1`,
		`kubernetes: [{name: pods, kind: Pod}]`,
		`kubernetes: [{name: pods, kind: Pod}, {name: services, kind: Service, queue: side}]`,
		`kubernetes: [{name: services, kind: Service, queue: side}]`,
		`onStartup: 1, kubernetes: [{name: pods, kind: Pod, jqFilter: .metadata.name}]`,
		`beforeHelm: 1, afterHelm: 2`,
		`schedule: [{name: tick, crontab: "@every 1000h"}]`,
		`onStartup: 2, schedule: [{name: tick, crontab: "@every 1000h"}], kubernetes: [{name: pods, kind: Pod}]`,
	}
}

func (h diskHook) text() string {
	good := fmt.Sprintf("#!testkit\n# %d\nconfig: {configVersion: v1, %s}\n", h.code, hookConfigs()[h.config])
	switch h.broken {
	case syntax:
		return "#!/there/is/no/such/interpreter\n"
	case nonsense:
		return "#!testkit\nconfig: {configVersion: v1, onStartUp: 1}\n"
	case half:
		return good[:len(good)/2]
	}
	return good
}

// diskValues are a values.yaml, of a module or of a root.
type diskValues struct {
	there  bool
	size   map[string]string // by module; JSON
	flags  map[string]bool
	global int // 0 for nothing
	broken string
}

func (v diskValues) clone() diskValues {
	v.size, v.flags = maps.Clone(v.size), maps.Clone(v.flags)
	return v
}

// hasValues reports whether the file exists and has content.
func (v diskValues) hasValues() bool {
	return v.there && (len(v.size)+len(v.flags)+v.global > 0 || v.broken != fine)
}

func (v diskValues) text() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(v.flags)) {
		lines = append(lines, fmt.Sprintf("%sEnabled: %t", name, v.flags[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(v.size)) {
		lines = append(lines, fmt.Sprintf("%s: {size: %s}", name, v.size[name]))
	}
	if v.global > 0 {
		lines = append(lines, fmt.Sprintf("global: {g: %d}", v.global))
	}
	text := strings.Join(lines, "\n") + "\n"
	switch v.broken {
	case syntax:
		return text + "more: [\n"
	case nonsense:
		return "- a list\n"
	case half:
		return text + "zzz: {a: 1"
	}
	return text
}

// diskSchema is an openapi/config-values.yaml: the type of one field, and the default of another.
type diskSchema struct {
	field, kind string // kind is empty when there is no file
	number      int
	broken      string
}

func (s diskSchema) text() string {
	switch s.broken {
	case syntax:
		return "type: [\n"
	case nonsense:
		return "type: thing\n"
	case half:
		return "type: object\nproperties: {" + s.field
	}
	return fmt.Sprintf("type: object\nproperties: {%s: {type: %s}, label: {type: string, default: l%d}}\n", s.field, s.kind, s.number)
}

// takes reports whether a value fits; it is JSON.
func (s diskSchema) takes(value string) bool {
	return s.kind == "" || value == "" || (s.kind == "string") == strings.HasPrefix(value, `"`)
}

// diskModule is the directory of a module.
type diskModule struct {
	number   int
	values   diskValues
	schema   diskSchema
	chart    int // the version in Chart.yaml; 0 for no such file
	template int
	helper   int
	crd      int // 0 for none
	enabled  string
	noBit    bool // of the enabled script
	hooks    map[string]diskHook

	brokenChart, brokenTemplate, brokenHelper, brokenCRD string
}

func (m diskModule) clone() diskModule {
	m.values, m.hooks = m.values.clone(), maps.Clone(m.hooks)
	return m
}

// textFile is a file as it is written.
type textFile struct {
	text string
	bit  bool // it is executable
}

func dirOf(name string, m diskModule) string { return fmt.Sprintf("modules/%03d-%s", m.number, name) }

// files adds those of a module.
func (m diskModule) files(name string, all map[string]textFile) {
	dir := dirOf(name, m) + "/"
	if m.values.there {
		all[dir+"values.yaml"] = textFile{text: strings.ReplaceAll(m.values.text(), ownSize+":", name+":")}
	}
	if m.schema.kind != "" {
		all[dir+"openapi/config-values.yaml"] = textFile{text: m.schema.text()}
	}
	if m.chart > 0 || m.brokenChart != fine {
		text := fmt.Sprintf("apiVersion: v2\nname: %s\nversion: 1.0.%d\n", name, m.chart)
		switch m.brokenChart {
		case syntax:
			text = "name: ["
		case nonsense:
			text = "apiVersion: v2\nversion: one\n"
		case half:
			text = text[:len(text)/2]
		}
		all[dir+"Chart.yaml"] = textFile{text: text}
	}
	all[dir+"templates/cm.yaml"] = textFile{text: m.templateText(name)}
	helper := fmt.Sprintf("{{ define \"%s.h\" }}h%d{{ end }}\n", name, m.helper)
	switch m.brokenHelper {
	case syntax:
		helper = "{{ define }}"
	case half:
		helper = helper[:len(helper)/2]
	}
	all[dir+"templates/_helpers.tpl"] = textFile{text: helper}
	if m.crd > 0 {
		text := crdText(name, m.crd)
		if m.brokenCRD != fine {
			text = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ["
		}
		all[dir+"crds/thing.yaml"] = textFile{text: text}
	}
	if m.enabled != "" {
		all[dir+"enabled"] = textFile{fmt.Sprintf("#!testkit\nenabled: %q\n", m.enabled), !m.noBit}
	}
	for hook, h := range m.hooks {
		all[dir+"hooks/"+hook] = textFile{h.text(), !h.noBit}
	}
}

func (m diskModule) templateText(name string) string {
	text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %[1]s}\ndata:\n  size: {{ .Values.%[1]s.size | default \"\" | quote }}\n  label: {{ .Values.%[1]s.label | default \"\" | quote }}\n"+
		"  global: {{ .Values.global.g | default \"\" | quote }}\n  helper: {{ include \"%[1]s.h\" . | quote }}\n  template: t%[2]d\n", name, m.template)
	switch m.brokenTemplate {
	case syntax:
		return text + "  x: {{ .Values.\n"
	case half:
		before, _, _ := strings.Cut(text, ".size")
		return before
	case failing:
		return text + "  x: {{ fail \"no\" }}\n"
	}
	return text
}

func crdText(name string, n int) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]sthings.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: %[2]sThing, plural: %[1]sthings, singular: %[1]sthing, listKind: %[2]sThingList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: d%[3]d}}}]
`, name, strings.ToUpper(name), n)
}

// loads is the file that keeps a module from loading, as its problem names it; "" when all load. Its hooks are asked
// separately.
func (m diskModule) loads() (bad string) {
	switch {
	case m.values.there && m.values.broken != fine:
		return "values.yaml"
	case m.schema.kind != "" && m.schema.broken != fine:
		return "config-values.yaml"
	case m.brokenChart != fine:
		return "Chart.yaml"
	case m.brokenTemplate != fine && m.brokenTemplate != failing:
		return "cm.yaml"
	case m.brokenHelper != fine:
		return "_helpers.tpl"
	}
	return ""
}

func brokenHook(hooks map[string]diskHook) string {
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		if h := hooks[name]; h.broken != fine && !h.noBit {
			return name
		}
	}
	return ""
}

// inUse are the hooks that have the executable bit.
func inUse(hooks map[string]diskHook) map[string]int {
	used := map[string]int{}
	for name, h := range hooks {
		if !h.noBit {
			used[name] = h.config
		}
	}
	return used
}

// diskTree is all that lies there.
type diskTree struct {
	common  diskValues
	modules map[string]diskModule
	hooks   map[string]diskHook // global ones
	schema  diskSchema
}

func (d diskTree) clone() diskTree {
	d.common, d.hooks = d.common.clone(), maps.Clone(d.hooks)
	modules := map[string]diskModule{}
	for name, m := range d.modules {
		modules[name] = m.clone()
	}
	d.modules = modules
	return d
}

func (d diskTree) files() map[string]textFile {
	all := map[string]textFile{}
	if d.common.there {
		all["modules/values.yaml"] = textFile{text: d.common.text()}
	}
	if d.schema.kind != "" {
		all["global-hooks/openapi/config-values.yaml"] = textFile{text: d.schema.text()}
	}
	for name, h := range d.hooks {
		all["global-hooks/"+name] = textFile{h.text(), !h.noBit}
	}
	for name, m := range d.modules {
		m.files(name, all)
	}
	return all
}

// versionInForce is the version of a module that is in force: its own files, and what the values.yaml of the root says of it.
type versionInForce struct {
	own      diskModule
	size     string // of the root; JSON or empty
	flag     bool
	enabled  bool
	asked    bool              // its hooks were asked since it was enabled
	released map[string]string // data of its ConfigMap; nil for no release
	fails    bool              // its run does
	loose    bool              // a hook in force has no usable file any more: its next run fails, whenever that is
	uid      string            // of that object
}

// merged is the size that templates see.
func (v *versionInForce) merged(configMap string) string {
	own := ""
	if v.own.values.there {
		own = v.own.values.size[ownSize]
	}
	return cmp.Or(configMap, own, v.size)
}

// ownSize is the key of the size in the values.yaml of a module.
const ownSize = "own"

// wanted is what its flag and its script say.
func (v *versionInForce) wanted() bool {
	return v.flag && (v.own.enabled != "false" || v.own.noBit)
}

// otherValues reports whether the files with values are others: only those are checked.
func (v *versionInForce) otherValues(old *versionInForce) bool {
	a, b := v.own, old.own
	return v.size != old.size || a.values.there != b.values.there || a.values.text() != b.values.text() || a.schema != b.schema || a.enabled != b.enabled || a.noBit != b.noBit
}

// saysNo reports whether its enabled script has said so last: then its values are not checked.
func (v *versionInForce) saysNo() bool { return v.flag && v.own.enabled == "false" && !v.own.noBit }

// inForce is the model of the operator: what must be in force.
type inForce struct {
	common  diskValues
	modules map[string]*versionInForce
	// leaving is what releases of modules without a directory in force have, while their purge waits (P1).
	leaving map[string]map[string]string
	hooks   map[string]diskHook
	schema  diskSchema
	global  int // of the common values, as the global section has it
	// problems by module, "" for what belongs to all: a part of a text that must be among what is shown.
	problems map[string][]string
}

// look is what becomes in force when the operator has looked at a tree; configMap are the sections of people.
func (f *inForce) look(d diskTree, configMap map[string]string) {
	f.problems = map[string][]string{}
	switch {
	case !d.common.hasValues() && f.common.hasValues(): // it may be about to be written
		f.problem("", "values file values.yaml")
	case !d.common.there:
		f.common = diskValues{}
	case d.common.broken != fine:
		f.problem("", "values file values.yaml")
	default:
		f.common = d.common.clone()
	}
	f.lookAtGlobal(d)
	maps.DeleteFunc(f.modules, func(name string, v *versionInForce) bool {
		_, there := d.modules[name]
		if !there && v.released != nil {
			f.leaving[name] = v.released
		}
		return !there
	})
	for _, name := range slices.Sorted(maps.Keys(d.modules)) {
		f.lookAt(name, d.modules[name], configMap[name])
	}
	for _, name := range slices.Sorted(maps.Keys(f.modules)) {
		f.run(name, f.modules[name], d.modules[name], configMap[name])
	}
}

func (f *inForce) problem(of, text string) { f.problems[of] = append(f.problems[of], text) }

func (f *inForce) lookAtGlobal(d diskTree) {
	text := func(global int) string {
		if global == 0 {
			return ""
		}
		return fmt.Sprint(global)
	}
	switch bad := brokenHook(d.hooks); {
	case d.schema.kind != "" && d.schema.broken != fine: // the files stay as they are; the values of the root may be others
		f.problem("", "config-values.yaml")
		if f.schema.takes(text(f.common.global)) {
			f.global = f.common.global
		}
	case bad != "" && !maps.Equal(d.hooks, f.hooks):
		f.problem("", bad)
	case !d.schema.takes(text(f.common.global)):
		f.problem("", "not in force")
	default:
		f.hooks, f.schema, f.global = maps.Clone(d.hooks), d.schema, f.common.global
	}
}

func (f *inForce) lookAt(name string, m diskModule, configMap string) {
	old, known := f.modules[name]
	bad := m.loads()
	if known && old.enabled && bad == "" && m.number == old.own.number && !maps.Equal(m.hooks, old.own.hooks) {
		bad = brokenHook(m.hooks)
	}
	if !known {
		if bad != "" {
			f.problem("", bad)
			return
		}
		old = &versionInForce{released: f.leaving[name]}
		delete(f.leaving, name)
	}
	next := *old
	if bad == "" {
		next.own = m.clone()
	}
	flag := func() {
		next.flag = f.common.flags[name]
		if own, ok := next.own.values.flags[name]; ok && next.own.values.there {
			next.flag = own
		}
	}
	next.size = f.common.size[name]
	if flag(); next.otherValues(old) && next.flag && !old.saysNo() && !next.own.schema.takes(next.merged(configMap)) && known {
		bad = cmp.Or(bad, name)
		next.own, next.size = old.own.clone(), old.size
		flag()
	}
	next.own.number = m.number
	if f.modules[name] = &next; bad != "" {
		f.problem(name, bad)
	}
}

// run is what comes of it: the module is switched, and runs.
func (f *inForce) run(name string, v *versionInForce, disk diskModule, configMap string) {
	if v.enabled = v.wanted(); !v.enabled {
		v.asked, v.released, v.uid, v.fails, v.loose = false, nil, "", false, false
		return
	}
	if !v.asked { // its hooks are asked now, as they lie there
		if v.asked = brokenHook(disk.hooks) == ""; v.asked {
			v.own.hooks = maps.Clone(disk.hooks)
		}
	}
	v.loose = false
	for hook, config := range inUse(v.own.hooks) {
		now, there := disk.hooks[hook]
		if strings.Contains(hookConfigs()[config], "Helm") && (!there || now.noBit || now.broken != fine) {
			v.loose = true
		}
	}
	v.fails = !v.asked || !v.own.schema.takes(v.merged(configMap)) || v.own.brokenTemplate == failing
	if !v.fails && !v.loose {
		v.released = v.render(f, configMap)
	}
}

// render is the data of its ConfigMap.
func (v *versionInForce) render(f *inForce, configMap string) map[string]string {
	label, global := "", ""
	if v.own.schema.kind != "" {
		label = fmt.Sprintf("l%d", v.own.schema.number)
	}
	if f.global > 0 {
		global = fmt.Sprint(f.global)
	}
	return map[string]string{
		"size": strings.Trim(v.merged(configMap), `"`), "label": label, "global": global,
		"helper": fmt.Sprintf("h%d", v.own.helper), "template": fmt.Sprintf("t%d", v.own.template),
	}
}

// hidesObjects reports whether it cannot be known which objects a module would have (P1).
func (v *versionInForce) hidesObjects() bool {
	return v != nil && v.enabled && v.own.brokenTemplate == failing
}

// order are the modules that are enabled, as they run.
func (f *inForce) order() []string {
	return slices.SortedFunc(func(yield func(string) bool) {
		for name, v := range f.modules {
			if v.enabled && !yield(name) {
				return
			}
		}
	}, func(a, b string) int {
		return cmp.Or(cmp.Compare(f.modules[a].own.number, f.modules[b].own.number), cmp.Compare(a, b))
	})
}
