package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// option is one option of the operator. Precedence is flag, environment, default (B1). It is a
// value that points to the field of Config that it sets.
type option struct {
	name, variables, help string // variables are separated by spaces, the strongest first
	// orNone: an empty variable switches the option off. For all other options it counts as absent,
	// because templates of manifests leave a variable out by setting it to nothing.
	orNone bool
	// short is a one-letter flag, also is a second name, that of kubectl; both may be
	// empty.
	short, also string
	// declare adds the flag, with its default, to a set. The default of a switch is what its field
	// holds at that time.
	declare func(flags *pflag.FlagSet, name, help string)
	// set takes the place of the flag of an option that has only a variable, and no name.
	set func(value string) error
}

// text is an option with a text; number, duration and yes make the other types.
func text(p *string, name, variables, def, help string) option {
	return option{name: name, variables: variables, help: help, declare: func(flags *pflag.FlagSet, name, help string) { flags.StringVar(p, name, def, help) }}
}

// textOrNone is an option that is switched off by an empty text.
func textOrNone(p *string, name, variables, def, help string) option {
	o := text(p, name, variables, def, help+"; empty disables it")
	o.orNone = true
	return o
}

func number(p *int, name, variables string, def int, help string) option {
	return option{name: name, variables: variables, help: help, declare: func(flags *pflag.FlagSet, name, help string) { flags.IntVar(p, name, def, help) }}
}

func duration(p *time.Duration, name, variables string, def time.Duration, help string) option {
	return option{name: name, variables: variables, help: help, declare: func(flags *pflag.FlagSet, name, help string) { flags.DurationVar(p, name, def, help) }}
}

// yes is a switch. Its default is what the field holds when it is declared; --name without a value
// means true.
func yes(p *bool, name, variables, help string) option {
	return option{name: name, variables: variables, help: help, declare: func(flags *pflag.FlagSet, name, help string) {
		flags.Var((*boolean)(p), name, help)
		flags.Lookup(name).NoOptDefVal = "true"
	}}
}

// New declares the options; lookup reads environment variables. In the help text of an option its
// variables follow the sentence. Nothing is read until Read.
func New(version string, flags *pflag.FlagSet, lookup func(string) (string, bool)) *Config {
	c := &Config{Version: version, flags: flags, lookup: lookup}
	c.declared = c.options()
	for _, o := range c.declared {
		if o.set != nil {
			continue
		}
		help := o.help
		if names := strings.Fields(o.variables); len(names) > 0 {
			help += " [$" + strings.Join(names, ", $") + "]"
		}
		o.add(flags, help)
	}
	return c
}

// add declares the flag of the option, and a hidden one for its other name. Both share one Value,
// so the last one on the command line wins.
func (o option) add(flags *pflag.FlagSet, help string) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.declare(own, o.name, help)
	flag := own.Lookup(o.name)
	flag.Shorthand = o.short
	flags.AddFlag(flag)
	if o.also != "" {
		flags.AddFlag(&pflag.Flag{Name: o.also, Usage: "the same as --" + o.name, Value: flag.Value, DefValue: flag.DefValue, Hidden: true})
	}
}

// named returns the option with a letter, or with another name; either may be empty.
func (o option) named(short, also string) option {
	o.short, o.also = short, also
	return o
}

// flagged reports whether a flag has set the option, by either of its names.
func (o option) flagged(flags *pflag.FlagSet) bool {
	return flags.Changed(o.name) || o.also != "" && flags.Changed(o.also)
}

// Read sets the options that no flag gave from the environment, and derives the directories. Root
// calls it before each command; an error names the variable.
func (c *Config) Read() error {
	defer c.completeDirs()
	for _, o := range c.declared {
		if o.flagged(c.flags) {
			continue
		}
		variable, value, ok := o.variable(c.lookup)
		if !ok {
			continue
		}
		set := o.set
		if set == nil {
			set = c.flags.Lookup(o.name).Value.Set
		}
		if err := set(value); err != nil {
			return UsageError{fmt.Errorf("environment variable %s=%q: %w", variable, value, err)}
		}
	}
	return nil
}

// variable finds the strongest environment variable that is set for an option, and its value.
func (o option) variable(lookup func(string) (string, bool)) (variable, value string, ok bool) {
	for variable := range strings.FieldsSeq(o.variables) {
		if value, ok := lookup(variable); ok && (value != "" || o.orNone) {
			return variable, value, true
		}
	}
	return "", "", false
}

// variables are all environment variables that stand for an option.
func (c *Config) variables() (all []string) {
	for _, o := range c.declared {
		all = append(all, strings.Fields(o.variables)...)
	}
	return all
}

// Given reports whether an option was set by flag or environment, so that a default may depend on
// other options. An unknown name is a bug and panics.
func (c *Config) Given(name string) bool {
	_, _, ok := c.option(name).variable(c.lookup)
	return ok || c.Flagged(name)
}

// Flagged reports whether an option was set by flag.
func (c *Config) Flagged(name string) bool { return c.option(name).flagged(c.flags) }

func (c *Config) option(name string) option {
	return c.declared[slices.IndexFunc(c.declared, func(o option) bool { return o.name == name })]
}

// boolean also accepts yes, no, on and off, as deployments of older operators write them.
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
