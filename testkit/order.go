package testkit

import (
	"fmt"
	"slices"
	"strings"
)

// Modules h and i of random scripts bring kinds, g and j use them: g comes before h, which it needs, j after i. People delete the definitions of the kinds, switch all of these modules on and off, and let Helm fail for them,
// also for good. It is a part of half of the scripts.
//
// Whatever came of that, main must move again when the reason is gone: when the module that brings the kind is
// switched on, or the one that needs it is switched off. So the end of such a script is one of these two, and
// nothing but flags and time is needed. That is the proof that there is no state of releases and flags in which
// main can never move again.

// needs are the modules that use a kind, with the one that brings it.
func needs() map[string]string { return map[string]string{"g": "h", "j": "i"} }

// order is what a random script does with these modules.
type order struct {
	*draw
	begun bool
	stuck string // installs and upgrades of this module fail
}

func (o *order) begin() {
	if o.begun = o.rnd.IntN(2) == 0; !o.begun {
		return
	}
	for _, step := range []string{"brings h Rule", "uses g Rule", "brings i Probe", "uses j Probe"} {
		o.add("%s", step)
	}
	for _, name := range strings.Fields("g h i j") {
		if o.rnd.IntN(4) > 0 {
			o.set(name+"Enabled", "true")
		}
	}
}

// orders are the steps that these modules add to those that are drawn.
func (o *order) steps() []func() {
	if !o.begun {
		return nil
	}
	return []func(){o.deleteKind, o.deleteKind, o.deleteKind, o.vanish, o.values, o.fails, o.flag, o.flag, o.flag, o.stick}
}

func (o *order) deleteKind() { o.add("delete-kind %s", oneOf(o.draw, "Rule", "Probe")) }

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

// stick lets a module fail until it is switched off.
func (o *order) stick() {
	if o.stuck == "" {
		o.stuck = oneOf(o.draw, "g", "h", "i", "j")
		o.add("stick-helm %s", o.stuck)
	}
}

// endOrder does what a person would: what keeps failing is switched off, and what lacks a kind gets it, or is switched
// off.
func (o *order) end() {
	if !o.begun {
		return
	}
	for _, name := range strings.Fields("g h i j") {
		o.add("fail-helm %s 0", name)
	}
	o.advance() // main may be stuck by now
	if o.stuck != "" {
		o.set(o.stuck+"Enabled", "false")
	}
	for _, user := range strings.Fields("g j") {
		provider, enabled := needs()[user], o.world.enabled()
		switch {
		case !slices.Contains(enabled, user) || slices.Contains(enabled, provider):
		case provider == o.stuck || provider == o.waits.stuck || o.rnd.IntN(2) == 0:
			o.set(user+"Enabled", "false")
		default:
			o.set(provider+"Enabled", "true")
		}
	}
}

// stepStickHelm lets all installs and upgrades of a release fail from now on.
func stepStickHelm(p *player, release string) error {
	p.releases.mu.Lock()
	defer p.releases.mu.Unlock()
	p.releases.stuck[release] = true
	return nil
}
