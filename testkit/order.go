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
	begun bool
	stuck string // installs and upgrades of this module fail
}

func (d *draw) beginOrder() {
	if d.order.begun = d.rnd.IntN(2) == 0; !d.order.begun {
		return
	}
	for _, step := range []string{"brings h Rule", "uses g Rule", "brings i Probe", "uses j Probe"} {
		d.add("%s", step)
	}
	for _, name := range strings.Fields("g h i j") {
		if d.rnd.IntN(4) > 0 {
			d.set(name+"Enabled", "true")
		}
	}
}

// orders are the steps that these modules add to those that are drawn.
func (d *draw) orders() []func() {
	if !d.order.begun {
		return nil
	}
	return []func(){d.deleteKind, d.deleteKind, d.deleteKind, d.vanish, d.orderValues, d.orderFails, d.orderFlag, d.orderFlag, d.orderFlag, d.stick}
}

func (d *draw) deleteKind() { d.add("delete-kind %s", oneOf(d, "Rule", "Probe")) }

func (d *draw) vanish() {
	d.add("vanish %s-%s", oneOf(d, "a", "e", "g", "h", "i", "j"), oneOf(d, "a", "b"))
}

func (d *draw) orderValues() {
	d.number++
	d.set(oneOf(d, "g", "h", "i", "j"), fmt.Sprintf("size: %d", d.number))
}

func (d *draw) orderFails() { d.add("fail-helm %s %d", oneOf(d, "g", "h", "i", "j"), 1+d.rnd.IntN(3)) }

func (d *draw) orderFlag() {
	d.set(oneOf(d, "g", "h", "i", "j")+"Enabled", oneOf(d, "true", "false"))
}

// stick lets a module fail until it is switched off.
func (d *draw) stick() {
	if d.order.stuck == "" {
		d.order.stuck = oneOf(d, "g", "h", "i", "j")
		d.add("stick-helm %s", d.order.stuck)
	}
}

// endOrder does what a person would: what keeps failing is switched off, and what lacks a kind gets it, or is switched
// off.
func (d *draw) endOrder() {
	if !d.order.begun {
		return
	}
	for _, name := range strings.Fields("g h i j") {
		d.add("fail-helm %s 0", name)
	}
	d.advance() // main may be stuck by now
	if d.order.stuck != "" {
		d.set(d.order.stuck+"Enabled", "false")
	}
	for _, user := range strings.Fields("g j") {
		provider, enabled := needs()[user], d.world.enabled()
		switch {
		case !slices.Contains(enabled, user) || slices.Contains(enabled, provider):
		case provider == d.order.stuck || provider == d.waits.stuck || d.rnd.IntN(2) == 0:
			d.set(user+"Enabled", "false")
		default:
			d.set(provider+"Enabled", "true")
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
