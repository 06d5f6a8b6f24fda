-- How many decimals a currency has (ISO 4217:2015, list one). Never guessed: a code that is not here is refused.

CREATE TABLE payment_idem.currencies (
    currency text     COLLATE "C" NOT NULL PRIMARY KEY CHECK (currency ~ '^[A-Z]{3}$'),
    exponent smallint NOT NULL CHECK (exponent BETWEEN 0 AND 8),
    built_in boolean  NOT NULL DEFAULT false
);
COMMENT ON TABLE payment_idem.currencies IS 'The currencies that are accepted, with their number of decimals.';
COMMENT ON COLUMN payment_idem.currencies.currency IS 'ISO 4217 code, upper case.';
COMMENT ON COLUMN payment_idem.currencies.exponent IS 'Decimals of the minor unit: 2 for USD, 0 for JPY, 3 for KWD.';
COMMENT ON COLUMN payment_idem.currencies.built_in IS 'Shipped with the extension.';

INSERT INTO payment_idem.currencies (currency, exponent, built_in)
SELECT unnest(string_to_array(codes, ' ')), exponent, true FROM (VALUES
    (0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF'),
    (2, 'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY'
         ' COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF'
         ' IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR'
         ' MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG'
         ' SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES'
         ' WST XCD XCG YER ZAR ZMW ZWG'),
    (3, 'BHD IQD JOD KWD LYD OMR TND'),
    (4, 'CLF UYW')
) AS list_one (exponent, codes);
