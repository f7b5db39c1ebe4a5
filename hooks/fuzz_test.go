package hooks

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"addon-operator/values"
)

// FuzzParseConfig looks for panics, and for accepted configurations that break a promise of Config.
func FuzzParseConfig(f *testing.F) {
	f.Add(true, []byte(everyField))
	f.Add(false, []byte(seedEvent))
	f.Add(false, []byte(`{"configVersion": "v1", "schedule": [{"crontab": "TZ=UTC 0 0 * * 5-7/2"}], "kubernetes": [{"kind": "Pod", "group": "g"}]}`))
	f.Add(true, []byte("a: &a [1]\nb: *a\n<<: {c: 2001-01-01, 1: .inf}"))
	f.Add(true, []byte(`{"": 1, "kubernetes": [{"": 1}]}`))
	f.Fuzz(func(t *testing.T, module bool, data []byte) {
		scope := Global
		if module {
			scope = Module
		}
		config, err := ParseConfig(scope, data)
		if err != nil {
			if err.Error() == "" || config != nil {
				t.Errorf("config %+v and error %q", config, err)
			}
			return
		}
		if len(config.Orders)+len(config.Schedules)+len(config.Kubernetes) == 0 {
			t.Error("accepted without a binding")
		}
		for binding, order := range config.Orders {
			if math.IsNaN(order) || !slices.Contains(allowedBindings(scope, config.Version), string(binding)) {
				t.Errorf("%s %v in a %s hook", binding, order, scope)
			}
		}
		for _, schedule := range config.Schedules {
			if schedule.Parsed == nil || schedule.Name == "" || schedule.Queue == "" {
				t.Errorf("incomplete %+v", schedule)
			}
			checkSnapshots(t, schedule.Snapshots, config)
		}
		for _, binding := range config.Kubernetes {
			if binding.Kind == "" || binding.Name == "" || binding.Queue == "" {
				t.Errorf("incomplete %+v", binding)
			}
			checkSnapshots(t, binding.Snapshots, config)
		}
	})
}

func checkSnapshots(t *testing.T, names []string, config *Config) {
	for _, name := range names {
		if countNamed(config.Kubernetes, name) != 1 {
			t.Errorf("snapshot of %q belongs to %d bindings", name, countNamed(config.Kubernetes, name))
		}
	}
}

func FuzzParseCrontab(f *testing.F) {
	for _, crontab := range []string{"* * * * *", "*/10 * * * * 1-7/2", "@every 1s", "TZ=UTC 0 12 * * sun-7", "CRON_TZ=", "@yearly", "0 0 30 2 *"} {
		f.Add(crontab)
	}
	f.Fuzz(func(t *testing.T, crontab string) {
		schedule, err := parseCrontab(crontab)
		if (schedule == nil) == (err == nil) {
			t.Fatalf("schedule %v and error %v", schedule, err)
		}
		if err == nil {
			neverFires(schedule)
		}
	})
}

func FuzzParseMetrics(f *testing.F) {
	f.Add([]byte(`{"name": "n", "action": "observe", "value": 1, "buckets": [1, 2], "labels": {"a": "b"}} {"group": "g", "action": "expire"}`))
	f.Add([]byte(`{"name": "n", "set": 5}{"name": "n", "add": 1e400}`))
	f.Add([]byte(`{"group": "g", "action": "expire", "buckets": [0, 1]}`))
	f.Add([]byte(`[{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		metrics, _, err := ParseMetrics(data)
		if err != nil {
			return
		}
		for _, metric := range metrics {
			if (metric.Name == "") != (metric.Action == ActionExpire) || (len(metric.Buckets) > 0) != (metric.Action == ActionObserve) {
				t.Errorf("accepted %+v", metric)
			}
		}
	})
}

// FuzzOutput holds that no byte of the output of a hook gets lost or ends the log, however it arrives.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n{\"msg\": \"three\"}\n\x00\xff\xe2\x82"), 3)
	f.Add([]byte("{\n}\n{}"), 1)
	f.Fuzz(func(t *testing.T, data []byte, chunk int) {
		runner := &Runner{options: Options{Log: slog.New(slog.DiscardHandler), ProxyJSON: true}}
		stream := runner.output(nil, "hook", "stdout")
		for part := range slices.Chunk(data, max(1, min(chunk, 1000))) {
			if n, err := stream.Write(part); n != len(part) || err != nil {
				t.Fatalf("wrote %d of %d: %v", n, len(part), err)
			}
		}
		stream.flush()
		if text := stream.ending(); len(text) > 6*tailBytes {
			t.Errorf("tail of %d bytes", len(text))
		}
		if text := printable(data); !json.Valid(mustEncode(t, text)) {
			t.Errorf("%q is not safe", text)
		}
	})
}

func FuzzFilter(f *testing.F) {
	for _, expression := range []string{".", ".a[]", "empty", "def f: f; f", "[limit(3; repeat(1))]", "{a: .b}"} {
		f.Add(expression, `{"a": [1, "x", null], "b": 1e100}`)
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		filter, err := CompileFilter(expression)
		if err != nil {
			return
		}
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if result, err := filter.apply(ctx, object); err == nil && !json.Valid(result) {
			t.Errorf("%s gives %s", expression, result)
		}
	})
}

func mustEncode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := values.Encode(v)
	must(t, err)
	return data
}
