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
