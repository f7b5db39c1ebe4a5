package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func object() map[string]any {
	return map[string]any{
		"kind":     "Pod",
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"b": "<1>", "a": "2"}, "generation": int64(9007199254740993)},
		"spec":     map[string]any{"ports": []any{int64(80), 1.5, json.Number("18446744073709551615")}},
		"big":      json.Number("123456789012345678901234567890"),
		"nothing":  nil,
	}
}

func TestFilterApply(t *testing.T) { // C37
	tests := map[string]struct{ filter, want string }{
		"one result":                {".metadata.name", `"a"`},
		"an object, keys sorted":    {".metadata.labels", `{"a":"2","b":"<1>"}`},
		"no result":                 {"empty", `null`},
		"a result that is null":     {".missing", `null`},
		"several results":           {".metadata.labels[]", `["2","<1>"]`},
		"integers stay exact":       {".metadata.generation", `9007199254740993`},
		"integers beyond 64 bits":   {".big", `123456789012345678901234567890`},
		"every kind of number":      {"[.spec.ports[] | . + 0]", `[80,1.5,18446744073709551615]`},
		"halt ends without failing": {".kind, halt, 1", `"Pod"`},
		"functions of jq 1.6":       {`[(.metadata.labels | keys_unsorted | .[]), (.metadata.labels | leaf_paths[0]), ("x" | debug | stderr)]`, `["a","b","a","b","x"]`},
		"functions of one's own":    {`def keys_unsorted: 1; keys_unsorted`, `1`},
		"no environment":            {"[$ENV, env] | unique", `[{}]`},
	}
	t.Setenv("SECRET", "x")
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			filter, err := CompileFilter(test.filter)
			must(t, err)
			given := object()
			got, err := filter.Apply(given)
			must(t, err)
			if string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if !reflect.DeepEqual(given, object()) {
				t.Error("the object, which others share, was changed")
			}
		})
	}
}

func TestFilterFails(t *testing.T) { // C39
	for _, expression := range []string{`.kind | tonumber`, `error("no")`, `"x" | halt_error`} {
		filter, err := CompileFilter(expression)
		must(t, err)
		if got, err := filter.Apply(object()); err == nil || !strings.Contains(err.Error(), "jq expression") {
			t.Errorf("%s: got %s, %v", expression, got, err)
		}
	}
	filter, err := CompileFilter(".")
	must(t, err)
	if _, err := filter.Apply(map[string]any{"a": []any{map[string]any{"b": struct{}{}}}}); err == nil {
		t.Error("a Go type that is no JSON is accepted")
	}
}

func TestFilterThatLoopsIsStopped(t *testing.T) {
	filter, err := CompileFilter("def f: f; f")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := filter.apply(ctx, object()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestFilterCompile(t *testing.T) { // C15
	for _, expression := range []string{".a |", "nosuchfunction", "$undefined", "{", "input"} {
		wantError(t, second(CompileFilter(expression)), expression)
	}
}

func TestNilFilter(t *testing.T) {
	var filter *Filter
	if got, err := filter.Apply(object()); got != nil || err != nil || filter.String() != "" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestFilterIsSafeForConcurrentUse(t *testing.T) {
	filter, err := CompileFilter(`.metadata.labels | with_entries(.value |= test("[0-9]"))`)
	must(t, err)
	shared := object()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := filter.Apply(shared); err != nil || string(got) != `{"a":true,"b":true}` {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	group.Wait()
}

func TestFilterImportsModules(t *testing.T) { // B3: JQ_LIBRARY_PATH
	dir := tree(t, "lib/labels.jq")
	library := filepath.Join(dir, "lib")
	must(t, os.WriteFile(filepath.Join(library, "labels.jq"), []byte("def names: keys;"), 0o600))
	const expression = `import "labels" as l; .metadata.labels | l::names`
	filter, err := CompileFilter(expression, t.TempDir(), library)
	must(t, err)
	if got, err := filter.Apply(object()); err != nil || string(got) != `["a","b"]` {
		t.Errorf("got %s, %v", got, err)
	}
	wantError(t, second(CompileFilter(expression)), "labels")
	config := `{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "jqFilter": "import \"labels\" as l; l::names"}]}`
	runner, _ := newRunner(t, Options{JQLibrary: []string{library}})
	if _, err := runner.Configure(t.Context(), script(t, "echo '"+config+"'").File, "/", Global); err != nil {
		t.Error(err)
	}
}

// Issue, bad input: a filter that loops on one object costs the others little.
func TestFilterThatLoopsIsDistrusted(t *testing.T) {
	filter, err := CompileFilter(`if .kind == "Loop" then [repeat(1)] else .kind end`)
	must(t, err)
	loop := map[string]any{"kind": "Loop"}
	wants := []string{"within 1s; does it loop forever?", "within 10ms; does it loop forever?"}
	for _, want := range wants {
		wantError(t, second(filter.Apply(loop)), want)
		got, err := filter.Apply(object())
		for tries := 0; err != nil && tries < 100; tries++ { // a busy machine may take longer than 10 ms
			got, err = filter.Apply(object())
		}
		if err != nil || string(got) != `"Pod"` {
			t.Errorf("another object: %s, %v", got, err)
		}
	}
	filter.distrusted.Store(time.Now().Add(-time.Second).UnixMilli())
	wantError(t, second(filter.Apply(loop)), wants[0])
}

func TestParseMetrics(t *testing.T) { // I6
	const file = `{"name": "backup_age_seconds", "action": "set", "value": 17, "labels": {"db": "x"}}
{"name": "backup_runs_total", "action": "add", "value": 1}
{"name": "backup_time", "action": "observe", "value": 3.2, "buckets": [1, 5, 10], "labels": {}}
{"group": "backups", "action": "expire"}
{"group": "backups", "name": "backup_age_seconds", "action": "set", "value": 5, "labels": {"db": "y"}}
{"name": "n", "set": 0}{"name":
  "ns:n", "add": 1, "group": "g"}
`
	want := []Metric{
		{Name: "backup_age_seconds", Action: ActionSet, Value: 17, Labels: map[string]string{"db": "x"}},
		{Name: "backup_runs_total", Action: ActionAdd, Value: 1},
		{Name: "backup_time", Action: ActionObserve, Value: 3.2, Buckets: []float64{1, 5, 10}, Labels: map[string]string{}},
		{Group: "backups", Action: ActionExpire},
		{Group: "backups", Name: "backup_age_seconds", Action: ActionSet, Value: 5, Labels: map[string]string{"db": "y"}},
		{Name: "n", Action: ActionSet},
		{Name: "ns:n", Group: "g", Action: ActionAdd, Value: 1},
	}
	got, warnings, err := ParseMetrics([]byte(file))
	if err != nil || warnings != nil {
		t.Fatal(warnings, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	for _, empty := range []string{"", " \n\n"} {
		if got, warnings, err := ParseMetrics([]byte(empty)); got != nil || warnings != nil || err != nil {
			t.Errorf("%q: got %v, %v, %v", empty, got, warnings, err)
		}
	}
}

func TestParseMetricsRefuses(t *testing.T) { // I6
	for situation, test := range map[string]struct{ file, want string }{
		"many problems":           {strings.Repeat("{}\n", 102), "there are more problems; fix these first"},
		"unknown action":          {`{"name": "n", "action": "push", "value": 1}`, `action is unknown: set, add, observe or expire`},
		"empty action":            {`{"name": "n", "action": "", "value": 1}`, `action is missing`},
		"no action":               {`{"name": "n", "value": 1}`, `action is missing; it is set, add, observe or expire`},
		"no name":                 {`{"action": "set", "value": 1}`, `name is missing`},
		"no value":                {`{"name": "n", "action": "set"}`, `value is missing; action set needs a number`},
		"set and add":             {`{"name": "n", "set": 1, "add": 1}`, `set and add are mutually exclusive`},
		"set next to an action":   {`{"name": "n", "set": 1, "action": "set"}`, `short for action and value`},
		"observe without buckets": {`{"name": "n", "action": "observe", "value": 1}`, `action observe needs buckets`},
		"observe in a group":      {`{"name": "n", "group": "g", "action": "observe", "value": 1, "buckets": [1]}`, `action observe is not possible in a group`},
		"buckets that descend":    {`{"name": "n", "action": "observe", "value": 1, "buckets": [2, 1]}`, `buckets must be in ascending order`},
		"buckets of a gauge":      {`{"name": "n", "action": "set", "value": 1, "buckets": [1]}`, `buckets belong to action observe`},
		"expire without group":    {`{"action": "expire"}`, `action expire needs a group`},
		"expire with a name":      {`{"name": "n", "group": "g", "action": "expire"}`, `leave name out`},
		"expire with buckets":     {`{"group": "g", "action": "expire", "buckets": [1]}`, `buckets belong to action observe`},
		"counter that goes down":  {`{"name": "n", "add": -1}`, `a counter cannot go down`},
		"name with a dash":        {`{"name": "a-b", "set": 1}`, `name must be letters`},
		"name with a digit first": {`{"name": "1a", "set": 1}`, `name must be letters`},
		"label that is empty":     {`{"name": "n", "set": 1, "labels": {"": "x"}}`, `label "" must be letters`},
		"labels":                  {`{"name": "n", "set": 1, "labels": {"a-b": "x", "__c": "y"}}`, `label "__c" must be letters, digits and _, and not begin with a digit or __`},
		"label of a histogram":    {`{"name": "n", "action": "observe", "value": 1, "buckets": [1], "labels": {"le": "1"}}`, `label le is the bucket of a histogram`},
		"number as a label":       {`{"name": "n", "set": 1, "labels": {"a": 1}}`, `cannot unmarshal number`},
		"a list":                  {`[{"name": "n", "set": 1}]`, `cannot unmarshal array`},
		"no JSON":                 {`n 1`, `write JSON objects one after another`},
		"half an object":          {`{"name": "n", "set": 1}{"name": `, `metric 2: write JSON objects one after another`},
		"every violation at once": {`{"set": 1} {"name": "ok", "set": 1} {"name": "n"}`, "metric 1: {\"set\": 1}: name is missing\nmetric 3: {\"name\": \"n\"}: action is missing"},
	} {
		t.Run(situation, func(t *testing.T) {
			if _, _, err := ParseMetrics([]byte(test.file)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestParseMetricsWarns(t *testing.T) { // I6: hooks run unchanged that were written where such keys were ignored
	metrics, warnings, err := ParseMetrics([]byte(`{"Name": "n", "set": 1, "lables": {}, "help": "x"}`))
	if err != nil || len(metrics) != 1 || metrics[0].Name != "n" {
		t.Fatalf("got %v, %v", metrics, err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "metric 1: ") || !strings.Contains(warnings[0], `unknown field "lables"; known are name`) {
		t.Errorf("warnings %q", warnings)
	}
}

func TestParseCrontab(t *testing.T) { // C12, X8
	// 2024-03-01 was a Friday.
	start := time.Date(2024, time.March, 1, 10, 20, 30, 0, time.UTC)
	for situation, test := range map[string]struct{ crontab, next string }{
		"six fields with seconds first":  {"*/10 * * * * *", "2024-03-01T10:20:40Z"},
		"five fields begin the minute":   {"30 12 * * *", "2024-03-01T12:30:00Z"},
		"the seed's each second":         {"* 30 12 * * *", "2024-03-01T12:30:00Z"},
		"list and range":                 {"0 1,25-27 10 * * *", "2024-03-01T10:25:00Z"},
		"names of months and days":       {"0 0 * apr mon", "2024-04-01T00:00:00Z"},
		"a name":                         {"@daily", "2024-03-02T00:00:00Z"},
		"an interval":                    {"@every 90s", "2024-03-01T10:22:00Z"},
		"a zone":                         {"TZ=America/New_York 0 12 * * *", "2024-03-01T12:00:00-05:00"},
		"a zone with more blanks":        {" TZ=UTC   0 12 * * 7 ", "2024-03-03T12:00:00Z"},
		"a zone and a name":              {"CRON_TZ=UTC @hourly", "2024-03-01T11:00:00Z"},
		"Monday is 1":                    {"0 0 0 * * 1", "2024-03-04T00:00:00Z"},
		"Sunday is 0":                    {"0 0 * * 0", "2024-03-03T00:00:00Z"},
		"Sunday is 7":                    {"0 0 * * 7", "2024-03-03T00:00:00Z"},
		"a range that ends with 7":       {"0 0 * * 6-7", "2024-03-02T00:00:00Z"},
		"a range from a name to 7":       {"0 0 0 * * sun-7/7", "2024-03-03T00:00:00Z"},
		"a range that ends with 7 by 2s": {"0 0 * * 3-7/2", "2024-03-03T00:00:00Z"},
		"a list with 7":                  {"0 0 * * 3,7", "2024-03-03T00:00:00Z"},
		"the whole week with 7":          {"0 0 * * 0-7", "2024-03-02T00:00:00Z"},
		"a step of 7":                    {"0 0 * * */7", "2024-03-03T00:00:00Z"},
		"leap day":                       {"0 0 29 2 *", "2028-02-29T00:00:00Z"},
	} {
		t.Run(situation, func(t *testing.T) {
			schedule, err := parseCrontab(test.crontab)
			must(t, err)
			want, err := time.Parse(time.RFC3339, test.next)
			must(t, err)
			if next := schedule.Next(start); !next.Equal(want) {
				t.Errorf("next is %s, want %s", next, want)
			}
			if neverFires(schedule) {
				t.Error("is said to fire never")
			}
		})
	}
}

// A time of the day comes once on each day, also when the clocks change; what is no time of the day follows the time
// that passes. C12.
func TestCrontabsWhenClocksChange(t *testing.T) {
	for _, test := range []struct{ crontab, from, want string }{
		{"TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"}, // 2:00 becomes 3:00
		{"TZ=Europe/Berlin 0,15,30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00"},
		{"TZ=Europe/Berlin 30 1,2,3 29 3 *", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00+01:00 2026-03-29T03:00:00+02:00 2026-03-29T03:30:00+02:00"},
		{"TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"}, // 3:00 becomes 2:00
		{"TZ=Europe/Berlin 30 2 * * *", "2026-10-25T01:10:00Z", "2026-10-26T02:30:00+01:00"},                           // 2:10 for the second time
		{"TZ=Europe/Berlin 0 30 1,2,3 25 10 *", "2026-10-24T12:00:00Z", "2026-10-25T01:30:00+02:00 2026-10-25T02:30:00+02:00 2026-10-25T03:30:00+01:00"},
		{"TZ=Africa/Cairo @daily", "2026-04-23T12:00:00Z", "2026-04-24T01:00:00+03:00 2026-04-25T00:00:00+03:00"}, // there is no midnight
		{"TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03T00:00:00Z", "2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
		{"TZ=Europe/Berlin */30 * * * *", "2026-03-29T00:15:00Z", "2026-03-29T01:30:00+01:00 2026-03-29T03:00:00+02:00 2026-03-29T03:30:00+02:00"},
		{"TZ=Europe/Berlin 0 * * * *", "2026-10-24T23:30:00Z", "2026-10-25T02:00:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T03:00:00+01:00"},
		{"TZ=Europe/Berlin @hourly", "2026-10-24T23:30:00Z", "2026-10-25T02:00:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T03:00:00+01:00"},
		{"TZ=Europe/Berlin 30 2 30 2 *", "2026-10-24T23:30:00Z", "0001-01-01T00:00:00Z"},
	} {
		schedule, err := parseCrontab(test.crontab)
		must(t, err)
		zone, err := time.LoadLocation(strings.TrimPrefix(strings.Fields(test.crontab)[0], "TZ="))
		must(t, err)
		at, err := time.Parse(time.RFC3339, test.from)
		must(t, err)
		var got []string
		for range strings.Fields(test.want) {
			if at = schedule.Next(at); at.IsZero() {
				zone = time.UTC
			}
			got = append(got, at.In(zone).Format(time.RFC3339))
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.crontab, text, test.want)
		}
	}
}

func TestParseCrontabRefuses(t *testing.T) { // C11
	for _, crontab := range []string{
		"", " ", "TZ=UTC", "TZ=UTC ", "TZ=", "CRON_TZ=", "TZ=No/Where * * * * *", "* * * *", "* * * * * * *", "@sometimes", "@every", "@every x", "@every -5s", "@every 0s", "TZ=UTC @every -5s",
		"60 * * * *", "* * * * 8", "* * * * 7-8", "* * * * 7-1", "* * * * 1-7/0", "* * * * 1-7/x", "* * * * x-7", "* * * * 7/2/2", "* * * * 1-2-7", "*/0 * * * *",
	} {
		if schedule, err := parseCrontab(crontab); err == nil {
			t.Errorf("%q is accepted and fires at %s", crontab, schedule.Next(time.Now()))
		} else if strings.TrimSpace(err.Error()) == "" {
			t.Errorf("%q: the error says nothing", crontab)
		}
	}
}
