package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// options remembers which environment variables stand for which flag. Precedence is
// flag, environment, default (B1).
type options struct {
	flags *pflag.FlagSet
	env   map[string][]string // flag → variables, the strongest first
	order []string
	empty map[string]bool // flags for which an empty variable is a choice, too
}

func newOptions(flags *pflag.FlagSet) *options {
	return &options{flags: flags, env: map[string][]string{}, empty: map[string]bool{}}
}

// add declares one option: in the help text the variables follow the sentence. vars are
// separated by spaces, the strongest first.
func (o *options) add(name, vars, help string, declare func(name, help string)) {
	o.env[name] = strings.Fields(vars)
	o.order = append(o.order, name)
	if vars != "" {
		help += " [$" + strings.Join(o.env[name], ", $") + "]"
	}
	declare(name, help)
}

func (o *options) text(p *string, name, vars, def, help string) {
	o.add(name, vars, help, func(name, help string) { o.flags.StringVar(p, name, def, help) })
}

// textOrNone is an option that is switched off by an empty text. For all others an empty
// variable counts as absent, because that is how templates of manifests leave one out.
func (o *options) textOrNone(p *string, name, vars, def, help string) {
	o.empty[name] = true
	o.text(p, name, vars, def, help+"; empty switches it off")
}

func (o *options) number(p *int, name, vars string, def int, help string) {
	o.add(name, vars, help, func(name, help string) { o.flags.IntVar(p, name, def, help) })
}

func (o *options) yes(p *bool, name, vars, help string) {
	o.add(name, vars, help, func(name, help string) {
		o.flags.Var((*boolean)(p), name, help)
		o.flags.Lookup(name).NoOptDefVal = "true"
	})
}

// fromEnvironment sets the options that no flag gave.
func (o *options) fromEnvironment(lookup func(string) (string, bool)) error {
	for _, name := range o.order {
		if o.flags.Changed(name) {
			continue
		}
		variable, value, ok := o.variable(name, lookup)
		if !ok {
			continue
		}
		if err := o.flags.Lookup(name).Value.Set(value); err != nil {
			return usageError{fmt.Errorf("environment variable %s=%q: %w", variable, value, err)}
		}
	}
	return nil
}

// variable finds the strongest environment variable that is set for an option.
func (o *options) variable(name string, lookup func(string) (string, bool)) (variable, value string, ok bool) {
	for _, variable := range o.env[name] {
		if value, ok := lookup(variable); ok && (value != "" || o.empty[name]) {
			return variable, value, true
		}
	}
	return "", "", false
}

// variables are all environment variables that stand for an option.
func (o *options) variables() []string {
	return slices.Concat(slices.Collect(maps.Values(o.env))...)
}

// given reports whether an option was set by flag or environment.
func (o *options) given(name string, lookup func(string) (string, bool)) bool {
	_, _, ok := o.variable(name, lookup)
	return ok || o.flags.Changed(name)
}

// boolean accepts yes and no in addition to true and false, as old deployments write them.
type boolean bool

// String implements pflag.Value.
func (b *boolean) String() string { return fmt.Sprint(bool(*b)) }

// Type implements pflag.Value.
func (b *boolean) Type() string { return "bool" }

// Set implements pflag.Value.
func (b *boolean) Set(text string) error {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		*b = true
	case "false", "no", "off", "0":
		*b = false
	default:
		return fmt.Errorf("must be true or false, not %q", text)
	}
	return nil
}
