package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func logged(t *testing.T, c Config) string {
	t.Helper()
	var out bytes.Buffer
	log, _, err := c.Logger(&out, strings.Clone)
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("quiet")
	log.Info("release", "module", "dns", slog.Group("inner", "time", "kept"))
	return out.String()
}

// B3: LOG_TYPE, LOG_LEVEL, LOG_NO_TIME.
func TestLogTypes(t *testing.T) {
	for name, c := range map[string]struct {
		config            Config
		json, color, time bool
	}{
		"json":                    {Config{LogType: "json", LogLevel: "info"}, true, false, true},
		"json without time":       {Config{LogType: "json", LogLevel: "info", LogNoTime: true}, true, false, false},
		"text":                    {Config{LogType: "text", LogLevel: "info"}, false, false, true},
		"text without time":       {Config{LogType: "text", LogLevel: "info", LogNoTime: true}, false, false, false},
		"color":                   {Config{LogType: "color", LogLevel: "info"}, false, true, true},
		"auto without a terminal": {Config{LogType: "auto", LogLevel: "info"}, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			out := logged(t, c.config)
			if got := json.Valid([]byte(out)); got != c.json {
				t.Errorf("JSON %v: %s", got, out)
			}
			if got := strings.Contains(out, "\x1b["); got != c.color {
				t.Errorf("color %v: %q", got, out)
			}
			if c.json {
				if got := strings.HasPrefix(out, `{"time":`); got != c.time {
					t.Errorf("time %v: %s", got, out)
				}
			} else if got := !strings.HasPrefix(out, "INF"); got != c.time {
				t.Errorf("time %v: %s", got, out)
			}
			if !strings.Contains(out, "dns") || !strings.Contains(out, "kept") || strings.Contains(out, "quiet") {
				t.Errorf("logged: %s", out)
			}
		})
	}
}

func TestLogLevels(t *testing.T) {
	for level, want := range map[string]string{"debug": "quiet release", "Info": "release", "WARN": "", "error": ""} {
		var got []string
		out := logged(t, Config{LogType: "text", LogLevel: level})
		for _, word := range []string{"quiet", "release"} {
			if strings.Contains(out, word) {
				got = append(got, word)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: logged %q, want %q", level, got, want)
		}
	}
}

func TestWrongLogOptions(t *testing.T) {
	for want, c := range map[string]Config{"log-level": {LogType: "text", LogLevel: "loud"}, "log-type": {LogType: "xml", LogLevel: "info"}} {
		_, _, err := c.Logger(&bytes.Buffer{}, strings.Clone)
		var usage UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
