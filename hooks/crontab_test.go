package hooks

import (
	"strings"
	"testing"
	"time"
)

func TestParseCrontab(t *testing.T) { // C12, X8
	// 2024-03-01 was a Friday.
	start := time.Date(2024, time.March, 1, 10, 20, 30, 0, time.UTC)
	tests := map[string]struct{ crontab, next string }{
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
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			schedule, err := parseCrontab(test.crontab)
			if err != nil {
				t.Fatal(err)
			}
			want, err := time.Parse(time.RFC3339, test.next)
			if err != nil {
				t.Fatal(err)
			}
			if next := schedule.Next(start); !next.Equal(want) {
				t.Errorf("next is %s, want %s", next, want)
			}
			if neverFires(schedule) {
				t.Error("is said to fire never")
			}
		})
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
