"""The files of a federation: certificates that name the parties, who takes part (``sites.toml``), and bundles of both.

The authority is the federation's own; ``sites.toml`` is public, and the bundle of an institution holds its secret key.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import secrets
import shutil
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pate._core.checks import check_int
from pate._core.files import read_toml_file, write_bytes, write_text
from pate.exceptions import InvalidInputError, RunFolderError
from pate.federation._contract import Party

SITES = "sites.toml"
#: Files of a bundle; the second is secret.
CERTIFICATE, _KEY, AUTHORITY = "party.crt", "party.key", "authority.crt"
#: Where the authority's own key is kept.
AUTHORITY_FOLDER = "authority"
_AUTHORITY_DAYS, _PARTY_DAYS = 5 * 365, 398
_NAME = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?"
_MOST_BYTES = 1_000_000
#: Below those that the system gives to whoever calls out.
_PORTS = (20_000, 32_000)
#: Fewest sites: of one alone there is no sum among sites.
_FEWEST = 2

# Certificates: an authority, and one certificate per party, which names it.


class Bundle(NamedTuple):
    """The three files that one party gets, in one folder; hand them over by a secure channel.

    Attributes
    ----------
    certificate, key, authority : Path
        The key is secret, and readable by its owner alone.

    Examples
    --------
    >>> Bundle(Path("party.crt"), Path("party.key"), Path("authority.crt")).key.name
    'party.key'
    """

    certificate: Path
    key: Path
    authority: Path


def bundle_of(bundle: Any) -> Bundle:
    """Return a party's certificate, key and authority: given as such, or as the folder that they lie in."""
    if isinstance(bundle, Bundle):
        return bundle
    return Bundle(*(Path(bundle) / name for name in (CERTIFICATE, _KEY, AUTHORITY)))


def make_authority(folder: str | os.PathLike[str]) -> Path:
    """Create a federation's own certificate authority in a new folder, and return the folder.

    ``authority.crt`` is public. ``private/authority.key`` must never leave the machine: whoever has it can pose as any
    party.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in make_authority(folder + "/registry").iterdir())
    ['authority.crt', 'private']
    """
    folder = Path(folder)
    try:
        if (folder / AUTHORITY).exists():  # that of a bundle, perhaps: it is not overwritten
            raise FileExistsError
        (folder / "private").mkdir(parents=True, mode=0o700)
    except FileExistsError:
        raise InvalidInputError(f"{folder} holds an authority already; name another folder.") from None
    folder.chmod(0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.BasicConstraints(ca=True, path_length=0), _usage(key_cert_sign=True, crl_sign=True)
    name = _name("Authority of a pate federation")
    write_bytes(folder / "private" / "authority.key", _pem(key), mode=0o600)
    write_bytes(folder / AUTHORITY, _signed(name, key, name, key, _AUTHORITY_DAYS, usage), mode=0o644)
    return folder


def issue(authority: str | os.PathLike[str], name: str, hosts: Sequence[str] = ()) -> Bundle:
    """Create a party's key and certificate below the authority's folder; each name can be used once.

    ``hosts`` are further names and addresses of machines for which the certificate is valid.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bundle = issue(make_authority(folder + "/registry"), "hospital-a")
    ...     sorted(names_in(bundle.certificate)), oct(bundle.key.stat().st_mode & 0o777)
    (['hospital-a'], '0o600')
    """
    authority = Path(authority)
    check_party_name(name)
    try:
        signer: Any = serialization.load_pem_private_key((authority / "private" / "authority.key").read_bytes(), None)
        issuer = (authority / AUTHORITY).read_bytes()
    except FileNotFoundError:
        raise InvalidInputError(f"{authority} holds no authority: make_authority makes one.") from None
    taken = {p.parent.name: names_in(p) for p in (authority / "parties").glob(f"*/{CERTIFICATE}")}
    others: list[x509.GeneralName] = []
    for host in hosts:
        try:
            others.append(x509.IPAddress(ipaddress.ip_address(host if isinstance(host, str) else "")))
        except ValueError:
            check_party_name(host)
            others.append(x509.DNSName(host))
    if clash := {name, *hosts} & set(taken) or {name} & set().union(*taken.values()):
        raise InvalidInputError(f"{min(clash)} is the name of a party or machine with a certificate; take another.")
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.BasicConstraints(ca=False, path_length=None), _usage(digital_signature=True)
    ends = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    extensions = (*usage, ends, x509.SubjectAlternativeName([x509.DNSName(name), *others]))
    by = x509.load_pem_x509_certificate(issuer).subject
    folder = authority / "parties" / name
    folder.mkdir(parents=True, mode=0o700)
    bundle = bundle_of(folder)
    write_bytes(bundle.key, _pem(key), mode=0o600)
    write_bytes(bundle.authority, issuer, mode=0o644)
    write_bytes(bundle.certificate, _signed(_name(name[:64]), key, by, signer, _PARTY_DAYS, extensions), mode=0o644)
    return bundle


def names_in(certificate: str | os.PathLike[str]) -> set[str]:
    """Return the names that the certificate in a PEM file is for."""
    try:
        found = x509.load_pem_x509_certificate(Path(certificate).read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        raise InvalidInputError(f"{os.fspath(certificate)} is no certificate that names anybody.") from None
    return set(names.get_values_for_type(x509.DNSName))


def check_in_date(certificate: str | os.PathLike[str]) -> None:
    """Refuse a certificate of one's own that has expired: others would only break off."""
    last = x509.load_pem_x509_certificate(Path(certificate).read_bytes()).not_valid_after_utc
    if datetime.now(UTC) > last:
        raise InvalidInputError(f"{os.fspath(certificate)} expired on {last:%Y-%m-%d}. Ask for a bundle anew.")


def check_party_name(name: str) -> str:
    """Return a name that can stand in a certificate: small letters, digits, hyphens and dots, and no address."""
    fits = isinstance(name, str) and len(name) <= 200 and re.fullmatch(rf"{_NAME}(\.{_NAME})*", name)
    if not fits or re.fullmatch(r"[0-9.]+", name):
        raise InvalidInputError(f"a party's name has small letters, digits, hyphens and dots, got {name!r}.")
    return name


def _usage(**used: bool) -> x509.KeyUsage:
    names = "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign"
    every = dict.fromkeys([*names.split(), "crl_sign", "encipher_only", "decipher_only"], False)
    return x509.KeyUsage(**(every | used))


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _signed(subject: x509.Name, key: Any, issuer: x509.Name, signer: Any, days: int, extensions: Any) -> bytes:
    now, public = datetime.now(UTC), key.public_key()
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_after(now + timedelta(days=days))
    builder = builder.not_valid_before(now - timedelta(hours=1))  # clocks differ
    own_id = x509.SubjectKeyIdentifier.from_public_key(public)
    signers_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    for extension in (own_id, signers_id, *extensions):
        critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
        builder = builder.add_extension(extension, critical)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _pem(key: Any) -> bytes:
    plain = serialization.NoEncryption()
    return bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))


# Who takes part, and the files of all.


@dataclass(frozen=True)
class Member:
    """One institution of a federation: the addresses of its site program and of its secure-computation engine.

    Examples
    --------
    >>> Member.parse("site", "hospital-a@10.0.0.7:7200")
    Member(name='hospital-a', host='10.0.0.7', port=7200, engine_port=7201)
    """

    name: str
    host: str
    port: int
    engine_port: int

    def __str__(self) -> str:
        more = "" if self.engine_port == self.port + 1 else f":{self.engine_port}"
        return f"{self.name}@{self.host}:{self.port}{more}"

    @classmethod
    def parse(cls, where: str, text: object) -> Member:
        """Return what ``NAME@HOST:PORT`` says, or ``NAME@HOST:PORT:ENGINE_PORT``; ``where`` is for errors."""
        found = re.fullmatch(r"([^@:]*)@([^@:]*):([0-9]{1,9})(?::([0-9]{1,9}))?", str(text))
        if found is None:
            raise InvalidInputError(
                f"{where} must be NAME@HOST:PORT, got {str(text)[:80]!r}. Say hospital-a@10.0.0.7:7200; a host is a "
                "name or an IPv4 address."
            )
        name, host, port, engine_port = found.groups()
        if not re.fullmatch(_NAME, name) or name == AUTHORITY_FOLDER:
            raise InvalidInputError(
                f"{where}: a name must be up to 63 small letters, digits and hyphens, and not {AUTHORITY_FOLDER!r}, "
                f"got {name[:80]!r}. It stands in the certificate: say hospital-a."
            )
        if not re.fullmatch(_HOST, host):
            raise InvalidInputError(f"{where}: the host of {name} must be a name or an IPv4 address, got {host!r:.80}.")
        ports = int(port), int(engine_port or int(port) + 1)
        if not 1 <= min(ports) <= max(ports) <= 65535:
            raise InvalidInputError(
                f"{where}: ports of {name} must be 1 to 65535, got {ports}: it is asked at the first, and adds up at "
                "the other, which is the next unless it is given (NAME@HOST:PORT:ENGINE_PORT)."
            )
        return cls(name, host, *ports)

    @property
    def party(self) -> Party:
        """Where its engine listens."""
        return Party(self.name, self.host, self.engine_port)


@dataclass(frozen=True, kw_only=True)
class Members:
    """The list of a federation's institutions (``sites.toml``): public, the same file at every institution.

    Attributes
    ----------
    coordinator : Member
    sites : tuple of Member
        In the order of the parties.
    authority : str
        SHA-256 of the certificate that signed all others.

    Examples
    --------
    >>> a, b, c, asks = (
    ...     Member.parse("site", f"{name}@127.0.0.1:{7000 + 10 * i}")
    ...     for i, name in enumerate("abcd")
    ... )
    >>> members = Members(coordinator=asks, sites=(a, b, c), authority="0" * 64)
    >>> print(*members.text().splitlines()[2:5])
    coordinator = "d@127.0.0.1:7030" sites = [     "a@127.0.0.1:7000",
    """

    coordinator: Member
    sites: tuple[Member, ...]
    authority: str

    def __post_init__(self) -> None:
        if len(self.sites) < _FEWEST:
            raise InvalidInputError(
                f"sites must be at least {_FEWEST}, got {len(self.sites)}. Name more; one alone takes pate label."
            )
        everyone = (self.coordinator, *self.sites)
        if name := _twice([member.name for member in everyone]):
            raise InvalidInputError(f"the name {name!r} stands twice. Give every institution a name of its own.")
        if end := _twice([(one.host.lower(), port) for one in everyone for port in (one.port, one.engine_port)]):
            raise InvalidInputError(
                f"port {end[1]} of {end[0]} is taken twice: every institution has two ports, the one that is given and "
                "the next. Leave room between them."
            )

    @property
    def names(self) -> set[str]:
        """Of everybody."""
        return {member.name for member in (self.coordinator, *self.sites)}

    def own(self, bundle: str | os.PathLike[str]) -> Member:
        """Return whose bundle it is; one of another federation is refused: its authority is not the one named here."""
        if (found := fingerprint_of(Path(bundle))) != self.authority:
            raise InvalidInputError(
                f"the bundle {str(bundle)!r} is of another federation: its authority is {found[:16]}..., and "
                f"{SITES} names {self.authority[:16]}... Take both from one pate federation init."
            )
        names = names_in(Path(bundle) / CERTIFICATE)
        here = [member for member in (self.coordinator, *self.sites) if member.name in names]
        if len(here) != 1:
            raise InvalidInputError(f"the certificate in {str(bundle)!r} must name one institution of {SITES}.")
        return here[0]

    def text(self) -> str:
        """Return the file."""
        lines = ["# Who takes part. Public; the same file everywhere.", f'authority = "{self.authority}"']
        lines += [f'coordinator = "{self.coordinator}"', "sites = [", *(f'    "{one}",' for one in self.sites), "]", ""]
        return "\n".join(lines)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Members:
        """Return what a ``sites.toml`` says; anything else is refused."""
        held = read_toml_file(path, what="list of sites", most_bytes=_MOST_BYTES, remedy="Fetch the file again.")
        sites, authority = held.get("sites"), str(held.get("authority"))
        if set(held) != {"authority", "coordinator", "sites"} or not isinstance(sites, list):
            raise InvalidInputError(
                f"{path} must have authority, coordinator and a list of sites, and nothing else. Fetch the file again."
            )
        if not re.fullmatch(r"[0-9a-f]{64}", authority):
            raise InvalidInputError(f"{path}: authority must be 64 hexadecimal digits. Fetch the file again.")
        asks, *others = (Member.parse(f"{path}: a member", one) for one in (held["coordinator"], *sites))
        return cls(coordinator=asks, sites=tuple(others), authority=authority)


def _twice(values: list[Any]) -> Any:
    """Return the first value that stood before; None where each stands once."""
    return next((one for i, one in enumerate(values) if one in values[:i]), None)


def local_members(n_sites: int, *, coordinator: str = "registry") -> tuple[Member, list[Member]]:
    """Return a coordinator and so many sites on this machine, at ports that are free now.

    Each of the two to 500 sites has two.

    Examples
    --------
    >>> asks, sites = local_members(3)
    >>> asks.host, [site.name for site in sites]
    ('127.0.0.1', ['site-1', 'site-2', 'site-3'])
    """
    check_int("sites", n_sites, low=_FEWEST, high=500)
    ports: list[int] = []
    candidate = _PORTS[0] + secrets.randbelow(_PORTS[1] - _PORTS[0])
    while len(ports) < 2 * n_sites + 2:
        with suppress(OSError), socket.create_server(("127.0.0.1", candidate)):
            ports.append(candidate)
        candidate = candidate + 1 if candidate < _PORTS[1] else _PORTS[0]
    names = [coordinator, *(f"site-{i + 1}" for i in range(n_sites))]
    made = [Member(name, "127.0.0.1", *ports[2 * i : 2 * i + 2]) for i, name in enumerate(names)]
    return made[0], made[1:]


_KEEP_OFFLINE = (
    "The key in this folder makes certificates of this federation: whoever has it can pass for any institution.\n"
    "Keep the folder offline, with one person; no run needs it, only certificates of new institutions do.\n"
)


def init_federation(
    out: str | os.PathLike[str], *, coordinator: Member, sites: Sequence[Member]
) -> tuple[Members, dict[str, Path]]:
    """Create a federation's files: ``sites.toml``, a certificate authority, and a bundle of secrets per institution.

    Parameters
    ----------
    out : path
        A folder, absent or empty. It gets the authority (whose key belongs offline), and by name a folder for the
        coordinator and every site: certificate, key (only its owner may read it), the authority's certificate,
        ``sites.toml``, and for a site ``site.toml`` to fill in.
    coordinator : Member
    sites : sequence of Member

    Examples
    --------
    >>> import tempfile
    >>> asks, sites = local_members(3)
    >>> members, bundles = init_federation(
    ...     Path(tempfile.mkdtemp()) / "cohort", coordinator=asks, sites=sites
    ... )
    >>> sorted(bundles), oct(bundles["site-1"].stat().st_mode & 0o777)
    (['registry', 'site-1', 'site-2', 'site-3'], '0o700')
    """
    folder = Path(out)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise RunFolderError(f"{str(folder)!r} exists. Keys are never overwritten: name another folder.")
    # Refused before anything is made.
    members = Members(coordinator=coordinator, sites=tuple(sites), authority="0" * 64)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = make_authority(folder / AUTHORITY_FOLDER)
    write_text(authority / "KEEP-OFFLINE.txt", _KEEP_OFFLINE)
    members = replace(members, authority=fingerprint_of(authority))
    write_text(folder / SITES, members.text())
    bundles = {}
    for member in (coordinator, *sites):
        made, bundle = issue(authority, member.name), folder / member.name
        bundle.mkdir(mode=0o700)
        os.replace(made.key, bundle / made.key.name)  # the authority keeps none of theirs
        for public in (made.certificate, made.authority):
            shutil.copyfile(public, bundle / public.name)
        write_text(bundle / SITES, members.text())
        bundles[member.name] = bundle
    return members, bundles


def fingerprint_of(bundle: Path) -> str:
    """Return SHA-256 of the authority's certificate in a folder."""
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert((bundle / AUTHORITY).read_text(encoding="ascii"))).hexdigest()
    except (OSError, ValueError):
        raise InvalidInputError(
            f"bundle must have the authority's certificate, {AUTHORITY}, got {str(bundle)!r}. Name the folder that "
            "pate federation init made."
        ) from None
