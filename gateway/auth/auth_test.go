package auth

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"polylog/gateway/config"
)

var (
	here      = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	here6     = &net.TCPAddr{IP: net.IPv6loopback, Port: 1}
	mapped    = &net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1"), Port: 1}
	elsewhere = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
)

func hashed(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func TestLoginTakesThePasswordAndThePlace(t *testing.T) {
	t.Parallel()
	us := New([]config.User{
		{Name: "guest", Password: "guest", Vhosts: []string{"*"}, LoopbackOnly: true},
		{Name: "app", PasswordHash: hashed(t, "secret"), Vhosts: []string{"*"}},
		{Name: "far", Password: "away", Vhosts: []string{"*"}},
	}, []string{"/"})
	for _, c := range []struct {
		user, password string
		from           net.Addr
		want           string // of the error; empty: none
	}{
		{"guest", "guest", here, ""},
		{"guest", "guest", here6, ""},
		{"guest", "guest", mapped, ""},
		{"guest", "guest", &net.UnixAddr{Name: "x"}, ""},
		{"guest", "guest", elsewhere, "user 'guest' can only connect via localhost"},
		{"guest", "guest", &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)}, "user 'guest' can only connect via localhost"},
		{"guest", "gues", here, "the user name or the password is wrong"},
		{"guest", "wrong", elsewhere, "the user name or the password is wrong"},
		{"guest", "", here, "the user name or the password is wrong"},
		{"app", "secret", elsewhere, ""},
		{"app", "secret", here, ""},
		{"app", "Secret", here, "the user name or the password is wrong"},
		{"app", "", here, "the user name or the password is wrong"},
		{"app", strings.Repeat("x", 100), here, "the user name or the password is wrong"},
		{"far", "away", elsewhere, ""},
		{"nobody", "secret", here, "the user name or the password is wrong"}, // also when it is the password that the decoy has
		{"", "", here, "the user name or the password is wrong"},
	} {
		for range 2 { // the second time from memory
			err := us.Login(c.user, c.password, c.from)
			if got := text(err); got != c.want {
				t.Errorf("Login(%q, %q, %v): %q, want %q", c.user, c.password, c.from, got, c.want)
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestNobodyCanLogInWithoutUsers(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"", "guest"} {
		if err := New(nil, []string{"/"}).Login("", password, here); !errors.Is(err, ErrCredentials) {
			t.Errorf("password %q: %v", password, err)
		}
	}
}

func TestProvedPasswordIsForgottenByNoWrongOne(t *testing.T) {
	t.Parallel()
	us := New([]config.User{{Name: "app", PasswordHash: hashed(t, "secret")}}, nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := us.Login("app", "secret", here); err != nil {
				t.Errorf("the right password: %v", err)
			}
			if err := us.Login("app", "secret2", here); err == nil {
				t.Error("a wrong password is taken")
			}
		})
	}
	wg.Wait()
	us.byName["app"].PasswordHash = "gone" // what is proved needs no hash any more
	if err := us.Login("app", "secret", here); err != nil {
		t.Errorf("a password that was proved is hashed again: %v", err)
	}
}

func TestVhostsAreOpenToThoseWhoMay(t *testing.T) {
	t.Parallel()
	us := New([]config.User{
		{Name: "all", Password: "x", Vhosts: []string{"*"}},
		{Name: "some", Password: "x", Vhosts: []string{"a", "b"}},
		{Name: "none", Password: "x"},
	}, []string{"/", "a", "b"})
	for _, c := range []struct {
		user, vhost string
		want        string
	}{
		{"all", "/", ""},
		{"all", "b", ""},
		{"all", "c", "vhost c not found"},
		{"all", "*", "vhost * not found"},
		{"some", "a", ""},
		{"some", "/", "access to vhost '/' refused for user 'some'"},
		{"none", "a", "access to vhost 'a' refused for user 'none'"},
		{"nobody", "a", "access to vhost 'a' refused for user 'nobody'"},
	} {
		if got := text(us.OpenVhost(c.user, c.vhost)); got != c.want {
			t.Errorf("OpenVhost(%q, %q): %q, want %q", c.user, c.vhost, got, c.want)
		}
	}
}
