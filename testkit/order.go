package testkit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// order is what a random script does with modules that need each other. It is a part of half of the
// scripts.
//
// Modules h and i bring kinds, g and j use them: g comes before h, which it needs, j after i. In
// half of these scripts they need more of each other (chains): i needs the kind of h, so what needs
// i needs a chain of two; g needs a namespace that i brings;
// and j waits for i. People delete the definitions of the kinds, the namespace and the service of
// the webhook, enable and disable all of these modules, and let Helm fail for them, also without
// end.
//
// In whatever state that leaves them, the queue main must move again when the reason is gone: when
// the module that brings what is lacking is enabled, or the one that needs it is disabled. So such
// a script ends with one of these two, and nothing but flags and time is needed. That is the proof
// that there is no state of releases and flags in which main can never move again.
type order struct {
	*draw
	begun  bool // the script has this part
	chains bool
	words  []string // what the modules bring, see kindsOf
	stuck  string   // installs and upgrades of this module fail until it is disabled; "": of none
}

// needs are the modules that another one cannot do without. A webhook is not among them: without
// its module there is none.
func (o *order) needs(user string) []string {
	if o.chains {
		return map[string][]string{"g": {"h", "i"}, "i": {"h"}, "j": {"i"}}[user]
	}
	return map[string][]string{"g": {"h"}, "j": {"i"}}[user]
}

func (o *order) begin(seed uint64) {
	if o.begun = o.rnd.IntN(2) == 0; !o.begun {
		return
	}
	// From a source of its own: a draw from the common one would change all scripts, also the seeds
	// that have found something.
	o.chains, o.words = rand.New(rand.NewPCG(seed, 3)).IntN(2) == 0, []string{"Rule", "Probe"}
	steps := []string{"brings h Rule", "uses g Rule", "brings i Probe", "uses j Probe"}
	if o.chains {
		o.words = append(o.words, "namespace:team")
		steps = append(steps, "uses i Rule", "brings i namespace:team", "uses g namespace:team", "write modules/040-j/module.yaml waits")
	}
	for _, step := range steps {
		o.add("%s", step)
	}
	for name := range strings.FieldsSeq("g h i j") {
		if o.rnd.IntN(4) > 0 {
			o.set(name+"Enabled", "true")
		}
	}
}

// steps are those that these modules add to the ones that are drawn from. What is listed twice is
// drawn twice as often.
func (o *order) steps() []func() {
	if !o.begun {
		return nil
	}
	return []func(){o.deleteKind, o.deleteKind, o.deleteKind, o.vanish, o.values, o.fails, o.flag, o.flag, o.flag, o.stick}
}

func (o *order) deleteKind() { o.add("delete-kind %s", oneOf(o.draw, o.words...)) }

func (o *order) vanish() {
	o.add("vanish %s-%s", oneOf(o.draw, "a", "e", "g", "h", "i", "j"), oneOf(o.draw, "a", "b"))
}

func (o *order) values() {
	o.number++
	o.set(oneOf(o.draw, "g", "h", "i", "j"), fmt.Sprintf("size: %d", o.number))
}

func (o *order) fails() { o.add("fail-helm %s %d", oneOf(o.draw, "g", "h", "i", "j"), 1+o.rnd.IntN(3)) }

func (o *order) flag() {
	o.set(oneOf(o.draw, "g", "h", "i", "j")+"Enabled", oneOf(o.draw, "true", "false"))
}

// stick lets a module fail until it is disabled.
func (o *order) stick() {
	if o.stuck == "" {
		o.stuck = oneOf(o.draw, "g", "h", "i", "j")
		o.add("stick-helm %s", o.stuck)
	}
}

// end does what a person would: what keeps failing is disabled, and what lacks a kind gets it, or
// is disabled.
func (o *order) end() {
	if !o.begun {
		return
	}
	for name := range strings.FieldsSeq("g h i j") {
		o.add("fail-helm %s 0", name)
	}
	o.advance() // main may be stuck by now
	if o.stuck != "" {
		o.set(o.stuck+"Enabled", "false")
	}
	for user := range strings.FieldsSeq("i g j") {
		o.settle(user)
	}
}

// settle enables what a module needs, and what that needs, or disables the module: by chance, or
// because its provider fails without end. A module that is not enabled needs nothing.
func (o *order) settle(user string) {
	for _, provider := range o.needs(user) {
		if !slices.Contains(o.world.enabled(), user) {
			return
		}
		if slices.Contains(o.world.enabled(), provider) {
			continue
		}
		if provider == o.stuck || provider == o.waits.stuck || o.rnd.IntN(2) == 0 {
			o.set(user+"Enabled", "false")
			return
		}
		o.set(provider+"Enabled", "true")
		if o.settle(provider); !slices.Contains(o.world.enabled(), provider) {
			o.set(user+"Enabled", "false")
			return
		}
	}
}
