package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"seedbed"
	"seedbed/api"
	"seedbed/api/signin"
	"seedbed/internal/oidctest"
)

// people is where the people of a world sign in. The group ops is an admin of the installation.
type people struct {
	provider *oidctest.Provider
	client   *signin.Provider
	signIn   *api.SignIn
}

func newPeople(apiAddr string) people {
	at := oidctest.Start()
	redirect := "http://" + apiAddr + "/api/v1/signin/callback"
	client := signin.New(signin.Config{Issuer: at.URL, ClientID: oidctest.ClientID, Secret: oidctest.Secret, Redirect: redirect,
		UsernameClaim: "preferred_username", GroupsClaim: "groups"})
	return people{at, client, &api.SignIn{Provider: client, Redirect: redirect, Length: time.Hour, Key: make([]byte, 32),
		Grants: []seedbed.PersonGrant{{Group: "ops", Project: seedbed.DefaultProject, Role: seedbed.RoleAdmin}}}}
}

func (p people) stop() {
	p.client.Close()
	p.provider.Close()
}

var ticket = regexp.MustCompile(`action="([^"]+)">\s*<input type="hidden" name="ticket" value="([^"]+)"`)

// browse is the browser of scripts, as xdg-open: it opens a URL, and agrees to what the page asks.
func browse() {
	if err := agree(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func agree(to string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := &http.Client{Jar: jar, Timeout: time.Minute}
	read := func(res *http.Response, err error) (string, error) {
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		return string(text), err
	}
	page, err := read(browser.Get(to))
	if err != nil {
		return err
	}
	form := ticket.FindStringSubmatch(page)
	if form == nil {
		return fmt.Errorf("the page asks for nothing: %s", page)
	}
	if page, err = read(browser.PostForm(form[1], url.Values{"ticket": {form[2]}})); err != nil {
		return err
	}
	if !strings.Contains(page, "You can close this page") {
		return fmt.Errorf("the last page: %s", page)
	}
	return nil
}
