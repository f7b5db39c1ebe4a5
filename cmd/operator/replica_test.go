package operator

import (
	"strings"
	"testing"

	"addon-operator/cmd/cli"
)

// The name and the address in an identity come back whole, whatever they look like.
func TestIdentity(t *testing.T) {
	for _, c := range []struct{ name, address string }{
		{"operator-5d8f-x2x", "10.0.0.7:9650"},
		{"a_host_with_underscores", "[fd00::1]:9650"},
	} {
		identity := identityOf(c.name, c.address)
		name, address := nameAndAddress(identity)
		if name != c.name || address != c.address {
			t.Errorf("%s became %q, %q", identity, name, address)
		}
		if identity == identityOf(c.name, c.address) {
			t.Error("two processes have one identity")
		}
	}
	for _, foreign := range []string{"", "somebody", "some_body"} {
		if name, address := nameAndAddress(foreign); name != foreign || address != "" {
			t.Errorf("%q became %q, %q", foreign, name, address)
		}
	}
}

func TestAdvertisedAddress(t *testing.T) {
	for name, c := range map[string]struct {
		config cli.Config
		want   string
	}{
		"given":                 {cli.Config{AdvertiseAddress: "10.0.0.7", ListenAddress: "0.0.0.0", ListenPort: 1}, "10.0.0.7:1"},
		"given, IPv6":           {cli.Config{AdvertiseAddress: "fd00::1", ListenPort: 1}, "[fd00::1]:1"},
		"the one it listens on": {cli.Config{ListenAddress: "127.0.0.1", ListenPort: 2}, "127.0.0.1:2"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := advertised(&c.config); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	got, err := advertised(&cli.Config{ListenAddress: "0.0.0.0", ListenPort: 3})
	if err != nil || strings.HasPrefix(got, "0.0.0.0") || !strings.HasSuffix(got, ":3") {
		t.Errorf("everywhere became %q, %v", got, err)
	}
}
