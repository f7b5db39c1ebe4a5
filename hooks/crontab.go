package hooks

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// parseCrontab reads five or six fields (seconds first), a name such as @hourly, or @every with a
// duration, each with an optional time zone "TZ=Europe/Paris " in front (C12). Sunday is 0 or 7
// (X8). Errors are written to follow the quoted crontab.
func parseCrontab(crontab string) (cron.Schedule, error) {
	spec := strings.TrimSpace(crontab)
	zone := ""
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		var found bool
		// The parser below panics when nothing follows the zone.
		if zone, spec, found = strings.Cut(spec, " "); !found {
			return nil, errors.New("has a time zone but no time; write, for example, TZ=Europe/Paris 0 12 * * *")
		}
		zone, spec = zone+" ", strings.TrimSpace(spec)
	}
	if spec == "" {
		return nil, errors.New("is empty")
	}
	if fields := strings.Fields(spec); len(fields) >= 5 && !strings.HasPrefix(spec, "@") {
		last := len(fields) - 1
		fields[last] = sundayAsZero(fields[last])
		spec = strings.Join(fields, " ")
	}
	const fields = cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor
	schedule, err := cron.NewParser(fields).Parse(zone + spec)
	if err != nil {
		return nil, fmt.Errorf("is not a crontab: %w; write minute, hour, day, month and day of the week, as in 30 3 * * *", err)
	}
	if d, ok := interval(spec); ok && d <= 0 { // the parser makes a second of it
		return nil, fmt.Errorf("is not a crontab: the interval %s must be positive", d)
	}
	if times, ok := schedule.(*cron.SpecSchedule); ok && hasFixedTimes(spec) {
		zone := times.Location
		times.Location = time.UTC
		return fixedTimes{times, zone}, nil
	}
	return schedule, nil
}

// hasFixedTimes reports whether a crontab names hours and minutes, as cron distinguishes them: others are ticks, which
// follow the time that passes.
func hasFixedTimes(spec string) bool {
	if fields := strings.Fields(spec); len(fields) >= 5 {
		minute, hour := fields[len(fields)-5], fields[len(fields)-4]
		return !strings.ContainsAny(minute[:1]+hour[:1], "*?")
	}
	return spec != "@hourly"
}

// fixedTimes are times of the day. They come once on each of its days, as those of cron do, also when the clocks are
// changed: a time that the change leaves out comes right after it, one that it repeats comes the first time.
type fixedTimes struct {
	times *cron.SpecSchedule // without a zone: as a clock without changes shows them
	zone  *time.Location
}

// Next implements cron.Schedule.
func (f fixedTimes) Next(after time.Time) time.Time {
	zone := f.zone
	if zone == time.Local {
		zone = after.Location()
	}
	_, offset := after.In(zone).Zone()
	for clock := time.Unix(after.Unix()+int64(offset), 0).UTC(); ; {
		if clock = f.times.Next(clock); clock.IsZero() {
			return clock
		}
		if next := firstTime(clock, zone); next.After(after) {
			return next.In(after.Location())
		}
	}
}

// firstTime is when the clocks of a zone show a time first, or would if they were not changed.
func firstTime(clock time.Time, zone *time.Location) time.Time {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).In(zone) }
	const day = 24 * 60 * 60
	shown := clock.Unix()
	_, before := at(shown - day).Zone()
	_, after := at(shown + day).Zone()
	for _, offset := range []int{before, after} {
		next := at(shown - int64(offset))
		if _, really := next.Zone(); really == offset {
			return next
		}
	}
	change, _ := at(shown - int64(before)).ZoneBounds()
	return change
}

// interval returns the duration after @every, of a crontab without its zone.
func interval(spec string) (time.Duration, bool) {
	text, found := strings.CutPrefix(spec, "@every ")
	duration, err := time.ParseDuration(text)
	return duration, found && err == nil
}

// neverFires reports a crontab whose form is right but whose day does not exist, such as 30
// February. The library looks five years ahead, which from this date on includes a leap day.
func neverFires(schedule cron.Schedule) bool {
	return schedule.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero()
}

// firesEachSecond recognizes "* 30 12 * * *", which people write for "once at 12:30". "* * * * * *"
// is meant as it is.
func firesEachSecond(crontab string) bool {
	fields := strings.Fields(crontab)
	return len(fields) == 6 && fields[0] == "*" && fields[1] != "*"
}

// sundayAsZero rewrites a field in which Sunday is 7, alone or at the end of a range, which the parser
// does not support. It has the parser read the field as hours, which go that far, and leaves what
// that does not understand for the parser to refuse.
func sundayAsZero(field string) string {
	names := strings.NewReplacer("-sun", "-7", "sun", "0", "mon", "1", "tue", "2", "wed", "3", "thu", "4", "fri", "5", "sat", "6")
	numbers := names.Replace(strings.ToLower(field))
	if !regexp.MustCompile(`(^|,)7(,|$)|-7([,/]|$)`).MatchString(numbers) {
		return field
	}
	read, err := cron.NewParser(cron.Hour).Parse(numbers)
	hours, ok := read.(*cron.SpecSchedule)
	if err != nil || !ok || hours.Hour>>8 != 0 {
		return field
	}
	var days []string
	for day := range 8 {
		if hours.Hour&(1<<day) != 0 {
			days = append(days, strconv.Itoa(day%7))
		}
	}
	return strings.Join(days, ",")
}
