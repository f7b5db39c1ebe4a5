package operator

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"addon-operator/cmd/cli"
	"addon-operator/hooks"
	"addon-operator/messages/view"
)

// parameters are what people may change while the operator runs (J4). A change lasts until the next
// one, until its time is over, or until the process ends: it is never written anywhere.
type parameters struct {
	log *slog.Logger

	// mu guards the parameters in all, and is held while one is set. The list itself does not
	// change after the start, when add is called without the mutex.
	mu  sync.Mutex
	all []*parameter
}

type parameter struct {
	view.Parameter
	set  func(value string) // applies one of the choices; it cannot fail
	back *time.Timer        // restores the default at Until; nil without a time
}

// add declares a parameter. Its default is in force already, so it is not set.
func (p *parameters) add(declared view.Parameter, set func(value string)) {
	declared.Value = declared.Default
	p.all = append(p.all, &parameter{Parameter: declared, set: set})
}

// addLogLevel declares the level of the log.
func (p *parameters) addLogLevel(level *slog.LevelVar) {
	p.add(view.Parameter{
		Name: "log.level", Default: strings.ToLower(level.Level().String()), Help: "log level", Choices: []string{"debug", "info", "warn", "error"},
	}, func(value string) {
		_ = level.UnmarshalText([]byte(value)) // one of the choices
	})
}

// addKeepFiles declares whether the files of hook runs are kept. They hold values with secrets.
func (p *parameters) addKeepFiles(c *cli.Config, runner *hooks.Runner) {
	p.add(view.Parameter{
		Name: "debug.keep-tmp-files", Default: fmt.Sprint(c.KeepTmpFiles), Help: "keep the files that hooks read and write; they contain values", Choices: []string{"true", "false"},
	}, func(value string) { runner.KeepFiles(value == "true") })
}

// List implements server.Parameters.
func (p *parameters) List() []view.Parameter {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]view.Parameter, 0, len(p.all))
	for _, one := range p.all {
		list = append(list, one.Parameter)
	}
	return list
}

// Set implements server.Parameters.
func (p *parameters) Set(name, value string, back time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.all[slices.IndexFunc(p.all, func(one *parameter) bool { return one.Name == name })]
	if one.back != nil {
		one.back.Stop()
	}
	one.back, one.Until = nil, time.Time{}
	p.change(one, value)
	if back > 0 && value != one.Default {
		until := time.Now().Add(back)
		one.Until = until
		one.back = time.AfterFunc(back, func() { p.giveBack(one, until) })
	}
}

// giveBack restores the default when the time of a change is over. The timer may have fired while
// another Set was waiting for the mutex; then Until differs, and that change stays.
func (p *parameters) giveBack(one *parameter, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.Until.Equal(until) {
		one.back, one.Until = nil, time.Time{}
		p.change(one, one.Default)
	}
}

// change sets a value and logs it.
func (p *parameters) change(one *parameter, value string) {
	if one.Value == value {
		return
	}
	p.log.Info("parameter changed", "parameter", one.Name, "from", one.Value, "to", value)
	one.set(value)
	one.Value = value
}
