package testkit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/values"
)

// faultyModule adds steps for module f, whose parts cause loops and failures, to a random script. Its chart deploys
// a ConfigMap, sometimes with another text at each upgrade, and a hook of it writes what it reads
// there to the values. Another hook writes with kubectl to the object that it watches, one appends to a
// list at each event, and one removes a value that the chart requires. At times the operator has no permission to
// read the kinds that the hooks watch.
//
// It is a part of half of the scripts; others may enable f by a drawn flag. The fields are the state
// at this place of the script.
type faultyModule struct {
	*draw
	begun     bool // the script has this part
	byChance  bool // its chart renders by chance
	touched   bool // there is an object for the hook that touches it
	unneeded  bool // there is an object that makes a hook take a required value away
	forbidden bool
}

// hooks are those of f, to which faults may happen; none if f is not a part of the script.
func (m *faultyModule) hooks() (list []string) {
	if !m.begun {
		return nil
	}
	for name := range strings.FieldsSeq("allow grow need see services touch") {
		list = append(list, "050-f/hooks/"+name+".sh")
	}
	return list
}

// begin decides whether f is a part of the script. Its object is in the cluster in any case,
// because f may be enabled by a flag.
func (m *faultyModule) begin() {
	if m.begun = m.rnd.IntN(2) == 0; m.begun {
		m.set("fEnabled", "true")
	}
}

// steps are those that module f adds to those that are drawn.
func (m *faultyModule) steps() []func() {
	if !m.begun {
		return nil
	}
	return []func(){m.render, m.touch, m.touch, m.services, m.services, m.forbid, m.need, m.maintenance, m.objects, m.faults.objectsFail, m.crds}
}

// render lets the chart render by chance, or no longer, or lets its next upgrade wait for that.
func (m *faultyModule) render() {
	m.byChance = !m.byChance
	m.chart()
	if m.byChance {
		m.add("slow-helm f %s", oneOf(m.draw, 0, 400*time.Millisecond)) // then its events are not right behind the hook
		m.add("advance %s", oneOf(m.draw, 10*time.Millisecond, 11*time.Second))
	}
}

// chart writes the template as it is now, if the directory is there.
func (m *faultyModule) chart() {
	if !m.world.gone["050-f"] {
		m.add("write modules/050-f/templates/usual.yaml %s", map[bool]string{true: "by-chance", false: "modules/050-f/templates/usual.yaml"}[m.byChance])
	}
}

// touch writes the object that a hook writes at each event of it.
func (m *faultyModule) touch() {
	switch {
	case m.touched && m.rnd.IntN(4) == 0:
		m.touched = false
		m.add("delete ConfigMap d/touched")
	default: // also when it is there: it becomes empty again
		m.touched = true
		m.add("object ConfigMap d/touched")
	}
}

func (m *faultyModule) services() {
	name := oneOf(m.draw, "one", "two", "three")
	if m.world.services[name] {
		delete(m.world.services, name)
		m.add("delete Service d/%s", name)
		return
	}
	m.world.services[name] = true
	m.add("object Service d/%s", name)
}

func (m *faultyModule) forbid() {
	m.forbidden = !m.forbidden
	m.add("%s Service", map[bool]string{true: "forbid", false: "permit"}[m.forbidden])
}

// need takes a value away that the chart requires, or brings it back: a hook of f does so while the
// object exists.
func (m *faultyModule) need() {
	m.unneeded = !m.unneeded
	m.add("%s ConfigMap d/unneeded", map[bool]string{true: "object", false: "delete"}[m.unneeded])
}

// maintenance begins and ends, and while the CRDs are installed that were due, values change: what
// was validated before must not be rendered after that (D36).
func (m *faultyModule) maintenance() {
	m.set("fMaintenance", "NoResourceReconciliation")
	m.advance()
	m.add("slow-crds %s", oneOf(m.draw, 0, 2*time.Second, 10*time.Second))
	m.remove("fMaintenance")
	m.advance()
	m.need()
	m.advance()
	if m.rnd.IntN(2) == 0 {
		m.need()
	}
}

// crds makes those of the module wrong from now on, or right.
func (m *faultyModule) crds() {
	if !m.world.gone["050-f"] {
		m.add("write modules/050-f/crds/thing.yaml %s", oneOf(m.draw, "wrong-crd", "right-crd"))
	}
}

// end brings module f to rest.
func (m *faultyModule) end() {
	if m.byChance {
		m.byChance = false
		m.chart()
	}
	if m.touched {
		m.touched = false
		m.add("delete ConfigMap d/touched")
	}
	if m.unneeded {
		m.need()
	}
	if m.forbidden {
		m.forbid()
	}
	if m.begun {
		m.add("slow-crds 0s")
		if !m.world.gone["050-f"] {
			m.add("write modules/050-f/crds/thing.yaml right-crd")
		}
	}
}

// faultyModuleValues are what hooks of module f must have written in the end: the chart's text, which
// depends on the size, and what they have counted. The list is taken from what is deployed;
// notInList checks it.
func (w world) faultyModuleValues(deployed map[string]any) map[string]any {
	return map[string]any{
		"need": int64(1), "services": int64(len(w.services)), "list": deployed["list"],
		"seen": []any{w.wordOfF()},
	}
}

// wordOfF is the text that the chart of f writes: the size in its section.
func (w world) wordOfF() string {
	section, _ := w.section("f").(map[string]any)
	size, err := values.JSON(section["size"])
	if err != nil {
		return err.Error()
	}
	return "size " + string(size)
}

// faultyModuleProblems lists the rules that module f violates.
func faultyModuleProblems(p *Played, deployed map[string]any, enabled bool) (list []string) {
	list = append(list, tooFrequent(p)...)
	for line := range strings.Lines(p.Trace) { // D36: what is validated is rendered
		if strings.Contains(line, " f {") && strings.Contains(line, "  helm ") && !strings.Contains(line, `"need":1`) {
			list = append(list, "the chart of f was rendered without a value that it requires: "+strings.TrimSpace(line))
		}
	}
	if enabled {
		appended, _ := deployed["list"].([]any)
		list = append(list, notInList(p, appended)...)
	}
	return list
}

// tooFrequent lists hooks that run too often: the operator slows loops down (K10).
func tooFrequent(p *Played) (list []string) {
	const perMinute = 120
	latest := map[string][]time.Time{}
	for _, r := range p.hookRuns {
		all := latest[r.hook]
		for len(all) > 0 && r.at.Sub(all[0]) > time.Minute {
			all = all[1:]
		}
		latest[r.hook] = append(all, r.at)
		if len(all) == perMinute {
			list = append(list, fmt.Sprintf("hook %s ran more than %d times in a minute", r.hook, perMinute))
		}
	}
	return slices.Compact(list)
}

// notInList compares a list with the runs of the hook that makes it longer: each run of it has
// added one element, a run that failed none, and the last one is there. Earlier elements may be
// missing: a restart forgets values. Of a run that was cut the element may be there or not.
func notInList(p *Played, elements []any) (list []string) {
	ran, has := map[string]int{}, map[string]int{}
	for _, e := range elements {
		has[fmt.Sprint(e)]++
	}
	missing := ""
	for _, r := range p.hookRuns {
		if !strings.HasSuffix(r.hook, "-f/hooks/grow.sh") {
			continue
		}
		switch {
		case !r.ok:
		case r.wasCut:
			ran[r.task]++
		default:
			ran[r.task]++
			missing = ""
			if has[r.task] == 0 {
				missing = r.task
			}
		}
	}
	if missing != "" {
		list = append(list, fmt.Sprintf("the last run of the hook grow, in task %s, is not in the values: %v", missing, elements))
	}
	for _, task := range keys(has, ran) {
		if has[task] > ran[task] {
			list = append(list, fmt.Sprintf("task %s is in the values %d times; its hook succeeded %d times", task, has[task], ran[task]))
		}
	}
	return list
}
