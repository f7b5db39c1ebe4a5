package hooks

import (
	"reflect"
	"strings"
	"testing"
)

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
	tests := map[string]struct{ file, want string }{
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
	}
	for situation, test := range tests {
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
