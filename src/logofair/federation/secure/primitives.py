"""The few primitives that secure sums need, all from the package ``cryptography``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats
from logofair.errors import InputError, SecureRefusalError
from logofair.federation.secure.roster import SecureRefusal, context

__all__ = [
    "KEY_SIZE",
    "NONCE_SIZE",
    "SEAL_SIZE",
    "SigningKey",
    "checked_steps",
    "decoded",
    "encoded",
    "new_signing_key",
    "pair_mask",
    "public_key",
    "public_line",
    "self_mask",
    "signing_key",
]


try:
    from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise InputError(
        "secure sums: the package cryptography is not installed; run: pip install 'logofair[secure]'."
    ) from None


SigningKey = ec.EllipticCurvePrivateKey
Words = npt.NDArray[np.uint64]

KEY_SIZE = 32
NONCE_SIZE = 12
SEAL_SIZE = NONCE_SIZE + 16  # what sealing adds: nonce and tag
_SIGNATURE = ec.ECDSA(hashes.SHA384())


def derived(secret: bytes, info: bytes) -> bytes:
    """A key of 32 bytes for one purpose (HKDF-SHA256)."""
    return HKDF(hashes.SHA256(), KEY_SIZE, salt=None, info=info).derive(secret)


def public_half(private: bytes) -> bytes:
    """The X25519 public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed_key(private: bytes, public: bytes, info: bytes) -> bytes:
    """The key that two holders of X25519 keys share for one purpose."""
    try:
        secret = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a wrong length, or a point of low order, which would make the secret known to all
        raise SecureRefusalError(SecureRefusal.BAD_KEY) from None
    return derived(secret, info)


def stream(key: bytes, length: int) -> Words:
    """``length`` uniform integers modulo 2^64 (ChaCha20); a key serves once, so the nonce may be zero."""
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * length)), dtype="<u8").astype(np.uint64)


def seal(key: bytes, nonce: bytes, plain: bytes, place: bytes) -> bytes:
    """Encrypt and authenticate ``plain``; it opens at the same place only."""
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, plain, place)


def unseal(key: bytes, sealed: bytes, place: bytes) -> bytes:
    """Open what :func:`seal` made, or refuse."""
    try:
        return ChaCha20Poly1305(key).decrypt(sealed[:NONCE_SIZE], sealed[NONCE_SIZE:], place)
    except (InvalidTag, ValueError):
        raise SecureRefusalError(SecureRefusal.BAD_SEAL) from None


def signature(key: SigningKey, words: bytes) -> bytes:
    """Sign with the site's long-term key (ECDSA, P-384, SHA-384)."""
    return key.sign(words, _SIGNATURE)


def check_signature(line: str, words: bytes, signed: bytes) -> None:
    """Refuse unless the holder of the public key in OpenSSH form signed the words."""
    try:
        _verifier(line.encode()).verify(signed, words, _SIGNATURE)
    except InvalidSignature:
        raise SecureRefusalError(SecureRefusal.BAD_SIGNATURE) from None


def new_signing_key() -> SigningKey:
    """Make a long-term key for a site, of the kind ``ssh-keygen -t ecdsa -b 384`` makes.

    For trials in memory; a real site reads its own from a file.

    Examples
    --------
    >>> new_signing_key().curve.name
    'secp384r1'
    """
    return ec.generate_private_key(ec.SECP384R1())


def private_text(key: SigningKey) -> str:
    """Return a private key as its file holds it (OpenSSH's format, without a passphrase).

    Examples
    --------
    >>> private_text(new_signing_key()).splitlines()[0]
    '-----BEGIN OPENSSH PRIVATE KEY-----'
    """
    form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    return key.private_bytes(*form, serialization.NoEncryption()).decode()


def signing_key(pem: bytes, where: str = "key") -> SigningKey:
    """Read a site's private key as ``ssh-keygen -t ecdsa -b 384 -N ""`` writes it.

    ``where`` names it in an error, say by its path.

    Examples
    --------
    >>> signing_key(b"", where="keys/north")
    Traceback (most recent call last):
    logofair.errors.InputError: keys/north: is no private key ...; make one with: ssh-keygen -t ecdsa -b 384 -N "".
    """
    advice = 'make one with: ssh-keygen -t ecdsa -b 384 -N ""'
    for read in (serialization.load_ssh_private_key, serialization.load_pem_private_key):
        try:
            key = read(pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue
        if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp384r1":
            return key
        raise InputError(f"{where}: is a key of another kind than ECDSA P-384; {advice}.")
    raise InputError(f"{where}: is no private key that can be read without a password; {advice}.")


def public_key(line: bytes, where: str = "public key") -> str:
    """Read a site's public key as ssh-keygen writes it (``NAME.pub``), without its comment.

    ``where`` names it in an error, say by its path. Clients take their peers' keys in this form.

    Examples
    --------
    >>> public_key(b"ssh-rsa AAAA", where="keys/north.pub")
    Traceback (most recent call last):
    logofair.errors.InputError: keys/north.pub: is no public key of kind ECDSA P-384 ...; ask the site for ...
    """
    try:
        key = _verifier(line)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(
            f"{where}: is no public key of kind ECDSA P-384 in OpenSSH form; ask the site for the .pub file "
            "that ssh-keygen -t ecdsa -b 384 wrote."
        ) from None
    return _openssh(key)


def public_line(key: SigningKey) -> str:
    """Return the public half of a site's key, as in its ``NAME.pub``.

    Examples
    --------
    >>> public_line(new_signing_key())[:19]
    'ecdsa-sha2-nistp384'
    """
    return _openssh(key.public_key())


def _openssh(key: ec.EllipticCurvePublicKey) -> str:
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def _verifier(line: bytes) -> ec.EllipticCurvePublicKey:
    key = serialization.load_ssh_public_key(line)
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp384r1":
        raise ValueError("kind")
    return key


def checked_steps(steps: Floats) -> Floats:
    """Return the fixed-point steps as an array, or say what is wrong with them."""
    array = np.asarray(steps, dtype=np.float64)
    if array.ndim != 1 or not np.all((array > 0) & np.isfinite(array)):
        raise InputError(
            "steps: expected one positive finite number per entry of the vector; pass the steps of the plan."
        )
    return array


def encoded(values: Floats, steps: Floats, sites: int) -> Words:
    """Values in units of their steps, and a one that will count the contributors; refuse what could wrap."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != steps.shape:
        raise InputError(f"values: got shape {array.shape} for {steps.size} steps; pass one value per step.")
    with np.errstate(over="ignore"):
        units = array / steps
    if not np.all(np.abs(units) <= 2.0**62 / sites):  # also where a value is not a number
        raise SecureRefusalError(SecureRefusal.OUT_OF_RANGE)
    return np.append(np.rint(units).astype(np.int64), 1).view(np.uint64)


def decoded(words: Words, steps: Floats) -> tuple[Floats, int]:
    """The totals, and the number of contributors they carry with them."""
    units = words.view(np.int64)
    return units[:-1].astype(np.float64) * steps, int(units[-1])


def self_mask(mask_seed: bytes, digest: bytes, length: int) -> Words:
    """The mask of one site that stays until its seed is rebuilt."""
    return stream(derived(mask_seed, context("self mask", digest)), length)


def pair_mask(private: bytes, peer_keys: Mapping[str, bytes], site: str, digest: bytes, length: int) -> Words:
    """A site's pairwise masks: added for later names, subtracted for earlier ones, so that they cancel."""
    total = np.zeros(length, dtype=np.uint64)
    for peer, public in peer_keys.items():
        mask = stream(agreed_key(private, public, context("pair mask", digest)), length)
        total = total + mask if site < peer else total - mask
    return total
