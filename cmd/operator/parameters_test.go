package operator

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/cmd/cli"
)

// J4: the level of the log changes at once, goes back by itself when that was asked for,
// and a later change replaces an earlier one with its time.
func TestLogLevelAtRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := cli.Config{LogLevel: "info", LogType: "text"}
		log, level, err := c.Logger(&out, strings.Clone)
		must(t, err)
		p := &logLevel{log: slog.New(slog.DiscardHandler), level: level}
		logs := func() string {
			out.Reset()
			log.Debug("debug")
			log.Info("info")
			log.Warn("warn")
			return strings.Join(strings.Fields(out.String()), " ")
		}
		set := func(value string, back time.Duration) {
			t.Helper()
			p.Set("log.level", value, back)
		}
		want := func(what string, texts ...string) {
			t.Helper()
			got := logs()
			for _, level := range []string{"debug", "info", "warn"} {
				if strings.Contains(got, level) != strings.Contains(strings.Join(texts, " "), level) {
					t.Errorf("%s: %s", what, got)
				}
			}
		}
		want("as started", "info", "warn")
		set("debug", 0)
		want("changed for good", "debug", "info", "warn")
		<-time.After(time.Hour) // virtual
		want("an hour later", "debug", "info", "warn")
		set("warn", time.Minute)
		want("for a minute", "warn")
		if list := p.List(); len(list) != 1 || list[0].Value != "warn" || list[0].Default != "info" || !list[0].Until.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("the list is %+v", list)
		}
		<-time.After(30 * time.Second) // virtual
		set("debug", time.Minute)
		<-time.After(45 * time.Second) // virtual
		want("the first minute is over, the second is not", "debug", "info", "warn")
		<-time.After(16 * time.Second) // virtual
		want("both are over", "info", "warn")
		set("debug", time.Minute)
		set("info", time.Minute)
		if list := p.List(); !list[0].Until.IsZero() {
			t.Errorf("the default goes back to itself at %s", list[0].Until)
		}
	})
}
