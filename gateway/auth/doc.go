// Package auth decides who may come in: which user with which password, from where, to which vhost.
//
// It promises: comparing takes the same time whether the user exists or not and however much of the password is right; a refusal tells a client no more than
// that, save that the user may come from this machine only, as RabbitMQ does; hashing of passwords cannot take all processors, however many clients try.
//
// It has no sockets and no clock. Its answers to front-ends are typed errors, of which each front-end makes codes of its protocol.
package auth
