package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"

	"polylog/gateway/config"
)

// ErrCredentials means that there is no such user, or that the password is another. It does not say which.
var ErrCredentials = errors.New("the user name or the password is wrong")

// LoopbackError means that the password is right and the user may log in from this machine only.
type LoopbackError struct{ User string }

func (e *LoopbackError) Error() string {
	return fmt.Sprintf("user '%s' can only connect via localhost", e.User)
}

// VhostUnknownError means that there is no such vhost.
type VhostUnknownError struct{ Vhost string }

func (e *VhostUnknownError) Error() string { return fmt.Sprintf("vhost %s not found", e.Vhost) }

// VhostRefusedError means that the user may not open the vhost.
type VhostRefusedError struct{ User, Vhost string }

func (e *VhostRefusedError) Error() string {
	return fmt.Sprintf("access to vhost '%s' refused for user '%s'", e.Vhost, e.User)
}

// Users are those who may log in. They do not change. Methods may be called from any goroutine.
type Users struct {
	byName map[string]*user
	vhosts []string
	decoy  *user // stands for users who do not exist, so that the answer takes as long

	key     [32]byte      // of digests, drawn at the start: they mean nothing outside this process
	hashing chan struct{} // a place for each hash that may be computed at the same time
}

// user is one row of the configuration.
type user struct {
	config.User
	digest [sha256.Size]byte // of the password, if the configuration has it
	// proved is the digest of the password that was last found to have the hash. A hash takes some 50 ms of a processor, which a client that connects again and again, or a
	// hundred that come back after a restart, need not spend each time.
	proved atomic.Pointer[[sha256.Size]byte]
}

// New makes the users of a configuration.
func New(list []config.User, vhosts []string) *Users {
	us := &Users{byName: map[string]*user{}, vhosts: vhosts, hashing: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	rand.Read(us.key[:]) //nolint:errcheck // crypto/rand does not fail
	us.decoy = &user{}
	for _, u := range list {
		us.byName[u.Name] = &user{User: u, digest: us.digest(u.Password)}
		if u.PasswordHash != "" && us.decoy.PasswordHash == "" {
			us.decoy.PasswordHash = u.PasswordHash
		}
	}
	if us.decoy.PasswordHash == "" {
		rand.Read(us.decoy.digest[:]) //nolint:errcheck // as above
	}
	return us
}

// digest makes passwords equally long, and comparable without telling how much of them is right.
func (us *Users) digest(password string) (d [sha256.Size]byte) {
	m := hmac.New(sha256.New, us.key[:])
	m.Write([]byte(password)) //nolint:errcheck // a hash takes all
	m.Sum(d[:0])
	return d
}

// Login checks a user's password and whether the user may come from the remote address. The error is ErrCredentials or a *LoopbackError.
func (us *Users) Login(name, password string, remote net.Addr) error {
	u, known := us.byName[name]
	if !known {
		u = us.decoy
	}
	if right := us.proves(u, password); !right || !known {
		return ErrCredentials
	}
	if u.LoopbackOnly && !isLoopback(remote) {
		return &LoopbackError{name}
	}
	return nil
}

// proves reports whether the password is the user's.
func (us *Users) proves(u *user, password string) bool {
	d := us.digest(password)
	if u.PasswordHash == "" {
		return subtle.ConstantTimeCompare(d[:], u.digest[:]) == 1
	}
	if p := u.proved.Load(); p != nil && subtle.ConstantTimeCompare(d[:], p[:]) == 1 && u != us.decoy {
		return true
	}
	us.hashing <- struct{}{}
	defer func() { <-us.hashing }()
	if bcrypt.CompareHashAndPassword([]byte(u.PasswordHash), []byte(password)) != nil {
		return false
	}
	u.proved.Store(&d)
	return true
}

// isLoopback reports whether the address is on this machine. A socket of the file system is.
func isLoopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// OpenVhost checks that the vhost exists and that the user, who has logged in, may open it. The error is a *VhostUnknownError or a *VhostRefusedError.
func (us *Users) OpenVhost(name, vhost string) error {
	if !slices.Contains(us.vhosts, vhost) {
		return &VhostUnknownError{vhost}
	}
	u, known := us.byName[name]
	if !known || !slices.Contains(u.Vhosts, vhost) && !slices.Contains(u.Vhosts, config.AnyVhost) {
		return &VhostRefusedError{name, vhost}
	}
	return nil
}
